//! One call: the leader if known, else members in turn, within one deadline. No randomness, no unbounded retry.

use super::error::{MetaError, Next, next_after};
use super::members::Members;
use super::{MetaClient, MetaClientConfig};
use crate::grpc::{NoConnection, root_cause};
use std::future::Future;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status};

/// Where the attempts of one call go.
struct Tour {
    members: usize,
    /// The member to ask now.
    at: usize,
    /// Members that did not answer in this round: a hint to one of them is not followed, it may name a dead leader.
    silent: Vec<usize>,
    /// Hints followed without a pause; bounded so that two members cannot send us to and fro.
    hints: usize,
    tries: u32,
}

impl Tour {
    fn new(members: usize, leader: Option<usize>) -> Tour {
        Tour { members, at: leader.unwrap_or(0), silent: Vec::new(), hints: 0, tries: 0 }
    }

    /// Follows a hint to another member, if that is worth a try.
    fn follow(&mut self, hint: Option<usize>) -> bool {
        match hint {
            Some(leader) if leader != self.at && !self.silent.contains(&leader) && self.hints < self.members => {
                self.hints += 1;
                self.at = leader;
                true
            }
            _ => false,
        }
    }

    /// Goes on to the next member; the pause is the caller's.
    fn next(&mut self, was_silent: bool) {
        if was_silent && !self.silent.contains(&self.at) {
            self.silent.push(self.at);
        }
        if self.silent.len() == self.members {
            self.silent.clear();
        }
        self.hints = 0;
        self.at = (self.at + 1) % self.members;
    }
}

/// How each member failed last, as far as it was asked.
struct Failures(Vec<Option<Failure>>);

struct Failure {
    untrusted: bool,
    why: String,
}

impl Failures {
    fn new(members: usize) -> Failures {
        Failures((0..members).map(|_| None).collect())
    }

    fn note(&mut self, at: usize, untrusted: bool, why: String) {
        self.0[at] = Some(Failure { untrusted, why });
    }

    /// So many members that no majority of the others is left, and so nobody who could answer.
    fn are_final(&self) -> bool {
        let untrusted = self.0.iter().flatten().filter(|failure| failure.untrusted).count();
        untrusted * 2 > self.0.len()
    }

    fn tell(&self, members: &Members) -> String {
        let told: Vec<String> = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(at, failure)| {
                let member = members.get(at);
                Some(format!("{} at {}: {}", member.name, member.addr, failure.as_ref()?.why))
            })
            .collect();
        if told.is_empty() { "not asked yet".to_owned() } else { told.join("; ") }
    }
}

impl MetaClient {
    pub(super) async fn call<Q, A, F>(
        &self,
        name: &'static str,
        request: &Q,
        attempt: impl Fn(Channel, Q) -> F,
    ) -> Result<A, MetaError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.call_noting(name, request, attempt, &mut false).await
    }

    /// Sets `unsure` once an attempt ended in a way that leaves open whether it took effect.
    pub(super) async fn call_noting<Q, A, F>(
        &self,
        name: &'static str,
        request: &Q,
        attempt: impl Fn(Channel, Q) -> F,
        unsure: &mut bool,
    ) -> Result<A, MetaError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let config = &self.config;
        let started = Instant::now();
        let deadline = started + config.call_timeout();
        let mut tour = Tour::new(self.members.count(), self.members.leader());
        let mut failures = Failures::new(self.members.count());
        while Instant::now() < deadline {
            let member = self.members.get(tour.at);
            let until = deadline.min(Instant::now() + config.attempt_timeout());
            let outcome = tokio::time::timeout_at(until, attempt(member.channel.clone(), request.clone())).await;
            let (next, hint, was_silent) = match outcome {
                Ok(Ok(answer)) => {
                    // What any member may answer names the leader; all else only the leader answers.
                    self.members.is_leader(self.members.named_in(answer.metadata()).unwrap_or(tour.at));
                    return Ok(answer.into_inner());
                }
                Ok(Err(status)) => {
                    let next = next_after(&status);
                    let is_settled = next == Next::Settle && started.elapsed() >= config.settle();
                    if next == Next::GiveUp || is_settled {
                        return Err(MetaError::Refused(status));
                    }
                    let hint = self.members.named_in(status.metadata());
                    // A status with a cause was made on this side: the member itself said nothing.
                    let cause = std::error::Error::source(&status);
                    let without = cause.and_then(NoConnection::of);
                    let untrusted = matches!(without, Some(NoConnection::Untrusted(_)));
                    let why = match (&without, cause) {
                        (Some(without), _) => without.to_string(),
                        (None, Some(cause)) => root_cause(cause),
                        (None, None) => status.message().to_owned(),
                    };
                    failures.note(tour.at, untrusted, why);
                    if untrusted && failures.are_final() {
                        let members = failures.tell(&self.members);
                        return Err(MetaError::Untrusted { members, unsure: *unsure });
                    }
                    *unsure |= next == Next::Elsewhere && hint.is_none() && without.is_none();
                    (next, hint, cause.is_some())
                }
                Err(_) => {
                    *unsure = true;
                    failures.note(tour.at, false, "no answer".to_owned());
                    (Next::Elsewhere, None, true)
                }
            };
            self.advance(&mut tour, next, hint, was_silent, deadline, config).await;
        }
        let last = failures.tell(&self.members);
        Err(MetaError::Deadline { call: name, timeout_ms: config.call_timeout_ms, last, unsure: *unsure })
    }

    async fn advance(
        &self,
        tour: &mut Tour,
        next: Next,
        hint: Option<usize>,
        was_silent: bool,
        deadline: Instant,
        config: &MetaClientConfig,
    ) {
        match next {
            Next::GiveUp => return,
            Next::Later | Next::Settle => {}
            Next::Elsewhere => {
                self.members.is_not_leader(tour.at);
                if tour.follow(hint) {
                    return;
                }
                // A leader without a lease names itself: it is the right one, a moment later.
                if hint != Some(tour.at) {
                    tour.next(was_silent);
                }
            }
        }
        tour.tries += 1;
        tokio::time::sleep_until(deadline.min(Instant::now() + config.backoff(tour.tries))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_followed_at_once_but_not_for_ever() {
        let mut tour = Tour::new(3, None);
        assert!(tour.follow(Some(2)) && tour.at == 2);
        assert!(tour.follow(Some(1)) && tour.at == 1);
        assert!(tour.follow(Some(2)) && tour.at == 2);
        assert!(!tour.follow(Some(1)), "two members that name each other cannot keep us");
        assert!(!tour.follow(Some(2)), "a member that names itself is asked again after a pause");
        assert!(!tour.follow(None));
    }

    #[test]
    fn a_hint_to_a_silent_member_is_not_followed() {
        let mut tour = Tour::new(3, Some(1));
        tour.next(true);
        assert_eq!(tour.at, 2);
        assert!(!tour.follow(Some(1)), "1 did not answer in this round");
        tour.next(true);
        tour.next(true);
        assert_eq!(tour.at, 1);
        assert!(tour.silent.is_empty(), "when all are silent the round begins anew");
    }
}
