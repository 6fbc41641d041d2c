//! Which files of a directory the kernel has the content of, as far as this process knows.

/// What the kernel was given of one directory.
#[derive(Debug, Default)]
pub(super) struct Given {
    files: Vec<u64>,
    /// The plan that went through here last.
    pub(super) stream: u64,
    /// The number of reads, of all, when this directory was read or pushed last.
    pub(super) last_read: u64,
}

impl Given {
    /// Marks a file as given and returns whether it was already.
    pub(super) fn mark(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1_u64 << (index % 64));
        if self.files.len() <= word {
            self.files.resize(word.saturating_add(1), 0);
        }
        self.files.get_mut(word).is_some_and(|word| {
            let was = *word & bit != 0;
            *word |= bit;
            was
        })
    }

    /// Returns whether a file is marked.
    pub(super) fn has(&self, index: usize) -> bool {
        let word = self.files.get(index / 64);
        word.is_some_and(|word| word & 1 << (index % 64) != 0)
    }

    /// Forgets all marks: the kernel dropped what it had.
    pub(super) fn clear(&mut self) {
        self.files.clear();
        self.stream = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_seen_and_forgotten() {
        let mut given = Given::default();
        assert!(!given.has(1000) && !given.mark(1000) && given.mark(1000));
        assert!(given.has(1000) && !given.has(999) && !given.has(64_000));
        given.clear();
        assert!(!given.has(1000));
    }
}
