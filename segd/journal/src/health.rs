//! The one-way switch from working to failed, and who wants to hear of it.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::JournalError;

type Listener = Box<dyn FnOnce(&JournalError) + Send>;

/// Shared by the handle, the writer thread and the spare-file thread. Failing is for ever; only the first reason counts.
#[derive(Default)]
pub(crate) struct Health {
    reason: OnceLock<Arc<str>>,
    listeners: Mutex<Vec<Listener>>,
}

impl Health {
    pub fn failure(&self) -> Option<JournalError> {
        self.reason.get().map(|reason| JournalError::Failed { reason: reason.clone() })
    }

    pub fn is_failed(&self) -> bool {
        self.reason.get().is_some()
    }

    /// Marks the journal failed and tells the listeners, once. Returns the error of the first failure.
    pub fn fail(&self, reason: String) -> JournalError {
        let kept = self.reason.get_or_init(|| {
            tracing::error!(%reason, "journal failed");
            reason.into()
        });
        let error = JournalError::Failed { reason: kept.clone() };
        let listeners = std::mem::take(&mut *self.listeners.lock());
        for listener in listeners {
            listener(&error);
        }
        error
    }

    /// Calls `listener` on failure, or now if that has already happened.
    pub fn on_failure(&self, listener: Listener) {
        let mut listeners = self.listeners.lock();
        match self.failure() {
            Some(error) => {
                drop(listeners);
                listener(&error);
            }
            None => listeners.push(listener),
        }
    }
}
