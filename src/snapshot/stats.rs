//! Counters of a snapshot: what was asked, what it cost. Read by the log and by tests; they steer
//! nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters once, so that their names in a report cannot drift.
macro_rules! counts {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// One counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Count { $($(#[$doc])* $variant,)* }

        const NAMES: &[&str] = &[$($name,)*];
    };
}

counts! {
    /// LOOKUP requests of the kernel.
    Lookups => "lookups",
    /// GETATTR requests.
    Getattrs => "getattrs",
    /// READLINK requests.
    Readlinks => "readlinks",
    /// READDIR and READDIRPLUS requests.
    Readdirs => "readdirs",
    /// READ requests.
    Reads => "reads",
    /// Other requests, but forgets.
    Others => "others",
    /// Requests answered with an error that is not the plain absence of a name.
    Failures => "failures",
    /// Bytes given in answers to READ.
    ReadBytes => "read_bytes",
    /// Trees loaded.
    Trees => "trees",
    /// Blobs loaded.
    Loads => "loads",
    /// Blobs that another thread was loading already.
    LoadsShared => "loads_shared",
    /// Blobs found in the cache.
    CacheHits => "cache_hits",
    /// Files pushed into the kernel's page cache by read-ahead.
    Pushed => "pushed",
    /// Bytes pushed.
    PushedBytes => "pushed_bytes",
}

/// All counters, shared by the threads that serve.
#[derive(Debug, Default)]
pub struct Stats([AtomicU64; NAMES.len()]);

impl Stats {
    /// Adds to one counter.
    pub fn add(&self, count: Count, amount: u64) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Returns one counter.
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        let counter = self.0.get(count as usize);
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Returns how many requests came from the kernel in all.
    #[must_use]
    pub fn requests(&self) -> u64 {
        use Count::{Getattrs, Lookups, Others, Readdirs, Readlinks, Reads};
        [Lookups, Getattrs, Readlinks, Readdirs, Reads, Others]
            .into_iter()
            .map(|count| self.get(count))
            .sum()
    }

    /// Returns each counter with its name, in a fixed order.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let values = self.0.iter().map(|c| c.load(Ordering::Relaxed));
        NAMES.iter().copied().zip(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_counts_under_its_own_name() {
        let stats = Stats::default();
        stats.add(Count::Reads, 2);
        stats.add(Count::PushedBytes, 7);
        let named: Vec<_> = stats.named().filter(|(_, value)| *value > 0).collect();
        assert_eq!(named, [("reads", 2), ("pushed_bytes", 7)]);
        assert_eq!(stats.requests(), 2);
    }
}
