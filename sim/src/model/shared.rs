//! Parts of a state that many states have in common: shared until changed, hashed once per change.
//!
//! A state is hashed for every edge of the graph; most edges change one or two parts. Two parts are taken for equal when
//! their 64-bit hashes are and their contents are; the checker itself tells states apart by 64 bits.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

#[derive(Clone)]
pub struct Shared<T> {
    hash: u64,
    value: Arc<T>,
}

/// The same for the same value in every process of one build.
pub fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T: Clone + Hash> Shared<T> {
    pub fn new(value: T) -> Self {
        Shared { hash: hash_of(&value), value: Arc::new(value) }
    }

    /// Changes the value in this state alone.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(Arc::make_mut(&mut self.value));
        self.hash = hash_of(&*self.value);
        result
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.value, &other.value) || self.value == other.value)
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
