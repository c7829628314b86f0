//! The model as the checker sees it.

use super::actions;
use super::config::Config;
use super::ghost::Rule;
use super::properties;
use super::step::{Action, Step};
use super::world::World;
use segd_core::traps::Trap;
use stateright::{Model, Property};
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Set while a step is tried: a failed assertion is a finding then, not a fault of this program.
    static TRYING: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// One configuration, with one trap (or `Trap::None`) put back.
pub struct Roll {
    pub config: Config,
    pub trap: Trap,
}

impl Roll {
    pub fn new(config: Config, trap: Trap) -> Self {
        keep_assertions_quiet();
        Roll { config, trap }
    }

    /// The next state, and the assertion that failed on the way there.
    pub fn try_step(&self, w: &World, action: Action) -> (World, Option<String>) {
        let step = Step { config: &self.config, trap: self.trap, w: w.clone() };
        TRYING.with_borrow_mut(|said| *said = Some(Vec::new()));
        let result = panic::catch_unwind(AssertUnwindSafe(|| step.take(action)));
        let said = TRYING.with_borrow_mut(Option::take).unwrap_or_default();
        match result {
            Ok(next) => (next, None),
            Err(_) => {
                let mut broken = w.clone();
                let said = said.join("; ");
                broken.ghost.edit(|ghost| ghost.assertion_failed(&said));
                (broken, Some(said))
            }
        }
    }
}

impl Model for Roll {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::first(&self.config)]
    }

    fn actions(&self, w: &World, out: &mut Vec<Action>) {
        if !w.ghost.is_broken(Rule::Assertion) {
            actions::actions(&self.config, self.trap, w, out);
        }
    }

    fn next_state(&self, w: &World, action: Action) -> Option<World> {
        let (next, _) = self.try_step(w, action);
        (next != *w).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties(self.config.live, self.config.witnesses)
    }
}

/// Assertions that fail inside a step are kept for the report instead of printed.
fn keep_assertions_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let kept = TRYING.with_borrow_mut(|said| match said {
                Some(said) => {
                    said.push(info.to_string());
                    true
                }
                None => false,
            });
            if !kept {
                before(info);
            }
        }));
    });
}
