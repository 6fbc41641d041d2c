//! Spend-or-refuse counters (R35, R120): bounded work is refused at the bound, never sampled.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};

/// The caps of one piece of work. `u64::MAX` means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Directory entries, the root not counted.
    pub entries_max: u64,
    /// Bytes of content.
    pub bytes_max: u64,
    /// Levels of directories below the root.
    pub depth_max: u32,
    /// Wall time; `None` waits for ever.
    pub timeout: Option<Duration>,
}

impl Default for Limits {
    /// Ten million entries, 1 TiB, 4,096 levels: far above any real tree, far below a tree bomb.
    fn default() -> Self {
        Self {
            entries_max: 10_000_000,
            bytes_max: 1 << 40,
            depth_max: 4096,
            timeout: None,
        }
    }
}

/// What is left of the [`Limits`] of one piece of work.
#[derive(Debug, Clone)]
pub struct Budget {
    limits: Limits,
    entries: u64,
    bytes: u64,
    deadline: Option<Instant>,
}

impl Budget {
    /// Starts counting; the deadline runs from now.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let deadline = limits.timeout.map(|t| Instant::now() + t);
        Self {
            limits,
            entries: 0,
            bytes: 0,
            deadline,
        }
    }

    /// Returns the caps it was made with.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Counts `count` entries at `path`.
    ///
    /// # Errors
    /// `budget-entries` past the cap.
    pub fn spend_entries(&mut self, count: u64, path: &Path) -> Result<()> {
        self.entries = self.entries.saturating_add(count);
        if self.entries > self.limits.entries_max {
            let max = self.limits.entries_max;
            return Err(over(
                "budget-entries",
                format!("more than {max} entries; raise --max-entries"),
                path,
            ));
        }
        Ok(())
    }

    /// Counts `count` bytes of content at `path`.
    ///
    /// # Errors
    /// `budget-bytes` past the cap.
    pub fn spend_bytes(&mut self, count: u64, path: &Path) -> Result<()> {
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes > self.limits.bytes_max {
            let max = self.limits.bytes_max;
            return Err(over(
                "budget-bytes",
                format!("more than {max} bytes of content; raise --max-bytes"),
                path,
            ));
        }
        Ok(())
    }

    /// Refuses a directory `depth` levels below the root.
    ///
    /// # Errors
    /// `budget-depth` past the cap.
    pub fn check_depth(&self, depth: u32, path: &Path) -> Result<()> {
        if depth > self.limits.depth_max {
            let max = self.limits.depth_max;
            return Err(over(
                "budget-depth",
                format!("more than {max} levels deep; raise --max-depth"),
                path,
            ));
        }
        Ok(())
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn expired(&self) -> bool {
        self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// Returns what has been spent: entries and bytes.
    #[must_use]
    pub fn spent(&self) -> (u64, u64) {
        (self.entries, self.bytes)
    }
}

fn over(slug: &'static str, message: String, path: &Path) -> Error {
    Error::new(ErrorKind::Budget, slug, message).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_itself_is_allowed_and_one_more_is_refused() {
        let mut budget = Budget::new(Limits {
            entries_max: 2,
            bytes_max: 10,
            depth_max: 1,
            timeout: None,
        });
        let path = Path::new("d");
        assert!(budget.spend_entries(2, path).is_ok());
        assert_eq!(
            budget.spend_entries(1, path).unwrap_err().slug(),
            "budget-entries"
        );
        assert!(budget.spend_bytes(10, path).is_ok());
        assert_eq!(
            budget.spend_bytes(1, path).unwrap_err().slug(),
            "budget-bytes"
        );
        assert!(budget.check_depth(1, path).is_ok());
        assert_eq!(budget.check_depth(2, path).unwrap_err().path(), Some(path));
    }

    #[test]
    fn a_sum_that_overflows_is_over_the_cap() {
        let mut budget = Budget::new(Limits {
            bytes_max: u64::MAX - 1,
            ..Limits::default()
        });
        let _ = budget.spend_bytes(u64::MAX - 1, Path::new("f"));
        assert!(budget.spend_bytes(u64::MAX, Path::new("f")).is_err());
    }
}
