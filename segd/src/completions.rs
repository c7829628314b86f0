//! Tells the node what is durable, in the order in which it asked.
//!
//! Entries that need no sync (`ack = replicated`) may complete before older ones that do; the node hears of them after those.

use crate::driver::Inbox;
use parking_lot::Mutex;
use segd_core::io::{Input, Token};
use std::collections::{BTreeSet, VecDeque};

pub struct Completions {
    inbox: Inbox,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    issued: VecDeque<Token>,
    done: BTreeSet<Token>,
}

impl Completions {
    pub fn new(inbox: Inbox) -> Self {
        Completions { inbox, order: Mutex::default() }
    }

    /// `token` goes to the journal now.
    pub fn issue(&self, token: Token) {
        self.order.lock().issued.push_back(token);
    }

    /// `token` is durable. Called by the journal's thread.
    pub fn complete(&self, token: Token) {
        let mut order = self.order.lock();
        if let Some(token) = order.complete(token) {
            // Under the lock, so that tokens reach the node in order.
            self.inbox.complete(Input::Persisted { token });
        }
    }
}

impl Order {
    /// The highest token up to which everything issued is done, if it rose.
    fn complete(&mut self, token: Token) -> Option<Token> {
        self.done.insert(token);
        let mut through = None;
        while let Some(first) = self.issued.front().copied() {
            if !self.done.remove(&first) {
                break;
            }
            self.issued.pop_front();
            through = Some(first);
        }
        through
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_completion_waits_for_the_older_ones() {
        let mut order = Order { issued: [Token(1), Token(4), Token(5)].into(), done: BTreeSet::new() };
        assert_eq!(order.complete(Token(4)), None);
        assert_eq!(order.complete(Token(1)), Some(Token(4)));
        assert_eq!(order.complete(Token(5)), Some(Token(5)));
    }
}
