//! Settings of the embedded log, with the reasons for their defaults.

use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// A member of the log as this member sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Unique, never reused for a member with a wiped disk.
    pub id: u64,
    /// The name in its certificate.
    pub name: String,
    /// `host:port` as this member dials it.
    pub addr: String,
}

/// Clocks of the log, in milliseconds.
///
/// A heartbeat is given up after one `heartbeat_ms`, so this must exceed the longest round trip between members, or an
/// idle leader loses its lease and refuses writes. 400 ms bears 200 ms of round trip with as much again for a busy
/// machine. A larger heartbeat does not slow a fail-over: that is bounded by the election settings (a follower waits
/// `election_max_ms` for the lease, then draws from min to max), and the last heartbeat came that much earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat_ms: u64,
    pub election_min_ms: u64,
    pub election_max_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { heartbeat_ms: 400, election_min_ms: 800, election_max_ms: 1600 }
    }
}

/// Bounds of the log. Each is a limit with a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A snapshot is taken once the entries since the last one exceed this. Bytes.
    pub snapshot_log_bytes: u64,
    /// A snapshot is taken after this many entries, however small.
    pub snapshot_log_entries: u64,
    /// Entries below a snapshot that are kept for slow members, at most this many …
    pub keep_log_entries: u64,
    /// … and at most this many bytes. A member further behind gets the snapshot.
    pub keep_log_bytes: u64,
    /// Proposals in flight; further ones are refused as overloaded.
    pub proposals: usize,
    /// A proposal without an outcome for this long is reported as unknown.
    pub propose_timeout: Duration,
    /// A snapshot larger than this is refused by its receiver. Bytes.
    pub snapshot_bytes: u64,
    /// A snapshot transfer that takes longer is begun again.
    pub snapshot_timeout: Duration,
    /// Size of one journal file. Bytes, a multiple of 4096; files below the snapshot are recycled.
    pub journal_file_bytes: u64,
    /// The largest command. Bytes; an entry must fit in a journal file and in a message.
    pub command_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            snapshot_log_bytes: 8 << 20,
            snapshot_log_entries: 10_000,
            keep_log_entries: 2_000,
            keep_log_bytes: 4 << 20,
            proposals: 1024,
            propose_timeout: Duration::from_secs(10),
            snapshot_bytes: 1 << 30,
            snapshot_timeout: Duration::from_secs(60),
            journal_file_bytes: 8 << 20,
            command_bytes: 1 << 20,
        }
    }
}

/// All that a member of the log needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// This member's id, one of `members`.
    pub id: u64,
    pub data_dir: PathBuf,
    /// All members, this one included. The same on every member but for the addresses.
    pub members: Vec<Member>,
    pub timing: Timing,
    pub limits: Limits,
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    #[error("id {0} is not among the configured members; add it to [[members]]")]
    NotAMember(u64),
    #[error("member {0} is configured twice; ids and names are unique")]
    Twice(String),
    #[error("heartbeat_ms ({heartbeat}) < election_min_ms ({min}) < election_max_ms ({max}) must hold")]
    Order { heartbeat: u64, min: u64, max: u64 },
    #[error("heartbeat_ms must be at least 20, not {0}")]
    Heartbeat(u64),
}

impl Settings {
    /// Checks every relation the log relies on.
    ///
    /// # Errors
    /// Names the settings and what must hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if !self.members.iter().any(|member| member.id == self.id) {
            return Err(SettingsError::NotAMember(self.id));
        }
        for (at, member) in self.members.iter().enumerate() {
            if self.members[..at].iter().any(|other| other.id == member.id || other.name == member.name) {
                return Err(SettingsError::Twice(member.name.clone()));
            }
        }
        let Timing { heartbeat_ms: heartbeat, election_min_ms: min, election_max_ms: max } = self.timing;
        if heartbeat < 20 {
            return Err(SettingsError::Heartbeat(heartbeat));
        }
        if !(heartbeat < min && min < max) {
            return Err(SettingsError::Order { heartbeat, min, max });
        }
        Ok(())
    }

    /// The member who forms the cluster while all are pristine.
    pub fn is_lowest(&self) -> bool {
        self.members.iter().all(|member| self.id <= member.id)
    }

    /// The configured name of a member.
    pub fn name_of(&self, id: u64) -> Option<&str> {
        self.members.iter().find(|member| member.id == id).map(|member| member.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let member = |id: u64| Member { id, name: format!("metad-{id}"), addr: format!("127.0.0.1:{}", 7100 + id) };
        Settings {
            id: 1,
            data_dir: PathBuf::new(),
            members: vec![member(1), member(2)],
            timing: Timing::default(),
            limits: Limits::default(),
        }
    }

    #[test]
    fn defaults_hold_and_each_bound_is_checked() {
        assert_eq!(settings().validate(), Ok(()));
        assert_eq!(Settings { id: 9, ..settings() }.validate(), Err(SettingsError::NotAMember(9)));
        let mut twice = settings();
        twice.members[1].name = "metad-1".into();
        assert_eq!(twice.validate(), Err(SettingsError::Twice("metad-1".into())));
        let timing = Timing { heartbeat_ms: 900, ..Timing::default() };
        assert!(matches!(Settings { timing, ..settings() }.validate(), Err(SettingsError::Order { .. })));
        let timing = Timing { heartbeat_ms: 1, ..Timing::default() };
        assert_eq!(Settings { timing, ..settings() }.validate(), Err(SettingsError::Heartbeat(1)));
    }
}
