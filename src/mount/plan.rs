//! What to read ahead: which files follow the one that was read, how far, and when to stop.
//!
//! A reader is only seen where it misses the page cache, so a plan leaves one file in its middle
//! unread: the request for it is the sign that the reader follows, and lets the plan go on, further
//! than before and into the directories that follow in the order of a walk. A reader that goes
//! elsewhere gives no sign, and the plan ends by itself. Only directories that the kernel has
//! listed are entered, since the kernel takes content only for inodes that it knows.
//!
//! No threads and no kernel here: `readahead` does what this says.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::given::Given;
use crate::snapshot::{Directory, Entry, EntryKind, Ino, Snapshot};

/// Files up to this size are read ahead; the kernel's own readahead serves larger ones well.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;

/// How far a plan reaches at first and at most, in bytes of content.
const WINDOW_BYTES_MIN: u64 = 64 << 10;
const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// By how much the window grows when the reader follows, and shrinks when it skips files.
const WINDOW_GROWTH: u64 = 4;

/// Plans that are followed at once; a new one ends the one that was followed longest ago.
const STREAMS_MAX: usize = 8;

/// What a file costs besides its bytes, so that a window of small files is not endless.
const FILE_COST: u64 = 1024;

/// Entries that are looked at in one go; what was given already costs no budget.
const STEPS_MAX: u32 = 4096;

/// After so many other reads, a file that is read again was dropped from the page cache.
const FORGOTTEN_AFTER: u64 = 64;

/// One file to push into the page cache.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) directory: Arc<Directory>,
    pub(super) index: usize,
    pub(super) size: u64,
}

/// All plans, and what the kernel was given.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// Directories whose inodes the kernel knows.
    listed: HashSet<Ino>,
    given: HashMap<Ino, Given>,
    /// The one followed last stands last.
    streams: Vec<Stream>,
    streams_made: u64,
    reads: u64,
}

#[derive(Debug)]
struct Stream {
    id: u64,
    directory: Arc<Directory>,
    next: usize,
    window: u64,
    budget: u64,
    /// The file whose reading lets this go on.
    sign: Option<(Ino, usize)>,
    tasks: VecDeque<Task>,
}

impl Plans {
    /// Notes that the kernel was given all entries of a directory; a plan that waits for it goes
    /// on. Returns whether there is something to do.
    pub(super) fn note_listed(&mut self, snapshot: &Snapshot, directory: &Directory) -> bool {
        if !self.listed.insert(directory.ino()) {
            return false;
        }
        let mut work = false;
        for at in 0..self.streams.len() {
            let waits = self.streams.get(at).is_some_and(|stream| {
                let entry = stream.directory.entry(stream.next);
                stream.budget > 0 && entry.is_some_and(|entry| entry.ino == directory.ino())
            });
            if waits {
                self.extend(snapshot, at);
                work = true;
            }
        }
        work
    }

    /// Notes that the kernel asked for a file from its beginning. Returns whether there is
    /// something to do.
    pub(super) fn note_read(&mut self, snapshot: &Snapshot, entry: &Entry) -> bool {
        self.reads = self.reads.saturating_add(1);
        let (directory, index) = (&entry.directory, entry.index);
        let reads = self.reads;
        let given = self.given.entry(directory.ino()).or_default();
        let again = given.mark(index);
        if again && reads.saturating_sub(given.last_read) > FORGOTTEN_AFTER {
            given.clear();
            given.mark(index);
        } else if again {
            // A worker is at it, or two asked at once.
            return false;
        }
        given.last_read = reads;
        let stream = given.stream;
        let sign = Some((directory.ino(), index));
        let streams = &self.streams;
        let at = streams.iter().position(|stream| stream.sign == sign);
        let at = at.or_else(|| streams.iter().position(|s| s.id == stream));
        let Some(at) = at else {
            let known = self.listed.contains(&directory.ino());
            if known {
                self.start(snapshot, entry);
            }
            return known;
        };
        let stream = self.streams.remove(at);
        self.streams.push(stream);
        let at = self.streams.len().saturating_sub(1);
        let Some(stream) = self.streams.get_mut(at) else {
            return false;
        };
        let size = snapshot
            .attr_of(directory, index)
            .map_or(0, |attr| attr.size);
        if stream.sign != sign && size > FILE_BYTES_MAX {
            return false;
        }
        let follows = stream.sign == sign || stream.sign.is_none();
        if follows || stream.tasks.is_empty() {
            if stream.directory.ino() == directory.ino() && stream.next <= index {
                stream.next = index.saturating_add(1);
            }
            let window = if follows {
                stream.window.saturating_mul(WINDOW_GROWTH)
            } else {
                // Past the sign without reading it: one who picks some files.
                stream.window / WINDOW_GROWTH
            };
            stream.window = window.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
            stream.budget = stream.window;
            self.extend(snapshot, at);
            return true;
        }
        false
    }

    fn start(&mut self, snapshot: &Snapshot, entry: &Entry) {
        self.streams_made = self.streams_made.saturating_add(1);
        if self.streams.len() >= STREAMS_MAX {
            self.streams.remove(0);
        }
        self.streams.push(Stream {
            id: self.streams_made,
            directory: Arc::clone(&entry.directory),
            next: entry.index.saturating_add(1),
            window: WINDOW_BYTES_MIN,
            budget: WINDOW_BYTES_MIN,
            sign: None,
            tasks: VecDeque::new(),
        });
        self.extend(snapshot, self.streams.len().saturating_sub(1));
    }

    /// Plans files until the budget of the stream is spent.
    fn extend(&mut self, snapshot: &Snapshot, at: usize) {
        let Some(stream) = self.streams.get_mut(at) else {
            return;
        };
        stream.sign = None;
        let half = stream.budget / 2;
        for _ in 0..STEPS_MAX {
            if stream.budget == 0 {
                break;
            }
            let Some(entry) = stream.directory.entry(stream.next) else {
                // The end of a directory: on with what follows it in the directory above.
                let Ok(above) = snapshot.entry(stream.directory.ino()) else {
                    return;
                };
                stream.next = above.index.saturating_add(1);
                stream.directory = above.directory;
                continue;
            };
            match entry.kind {
                EntryKind::Directory => {
                    if !self.listed.contains(&entry.ino) {
                        return;
                    }
                    let Ok(below) = snapshot.list(entry.ino) else {
                        return;
                    };
                    stream.directory = below;
                    stream.next = 0;
                    continue;
                }
                EntryKind::File { .. } => {}
                EntryKind::Symlink | EntryKind::Submodule => {
                    stream.next = stream.next.saturating_add(1);
                    continue;
                }
            }
            let index = stream.next;
            stream.next = index.saturating_add(1);
            let given = self.given.entry(stream.directory.ino()).or_default();
            given.stream = stream.id;
            if given.has(index) {
                continue;
            }
            let Ok(attr) = snapshot.attr_of(&stream.directory, index) else {
                continue;
            };
            if attr.size == 0 || attr.size > FILE_BYTES_MAX.min(snapshot.whole_bytes_max()) {
                continue;
            }
            let before = stream.budget;
            stream.budget = before.saturating_sub(attr.size.saturating_add(FILE_COST));
            if before >= half && stream.budget < half && stream.sign.is_none() {
                stream.sign = Some((stream.directory.ino(), index));
                continue;
            }
            stream.tasks.push_back(Task {
                directory: Arc::clone(&stream.directory),
                index,
                size: attr.size,
            });
        }
    }

    /// Takes the next file to push, of the plan followed last, and marks it as given.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        for stream in self.streams.iter_mut().rev() {
            while let Some(task) = stream.tasks.pop_front() {
                let given = self.given.entry(task.directory.ino()).or_default();
                given.last_read = self.reads;
                if !given.mark(task.index) {
                    return Some(task);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::sample::snapshot;

    fn at(snapshot: &Snapshot, path: &str) -> Entry {
        let ino = path.split('/').fold(Ino::ROOT, |parent, name| {
            let found = snapshot.lookup(parent, name.as_bytes());
            found.unwrap().expect("the path exists").ino
        });
        snapshot.entry(ino).unwrap()
    }

    fn list(plans: &mut Plans, snapshot: &Snapshot, path: &str) -> bool {
        let directory = if path.is_empty() {
            snapshot.list(Ino::ROOT)
        } else {
            snapshot.list_entry(&at(snapshot, path))
        };
        plans.note_listed(snapshot, &directory.unwrap())
    }

    fn drain(plans: &mut Plans, snapshot: &Snapshot) -> Vec<String> {
        std::iter::from_fn(|| plans.next_task())
            .map(|task| snapshot.path_of(&task.directory, task.index))
            .map(|path| String::from_utf8(path).unwrap())
            .collect()
    }

    #[test]
    fn a_reader_that_follows_is_seen_by_the_file_left_out_and_gets_the_directories_behind() {
        let names: Vec<_> = (0..400).map(|n| format!("{}/f{n:03}", n / 100)).collect();
        let files: Vec<_> = names.iter().map(|name| (&name[..], 15 << 10)).collect();
        let snapshot = snapshot(&files);
        let mut plans = Plans::default();
        for path in ["", "0", "1", "2", "3"] {
            assert!(!list(&mut plans, &snapshot, path));
        }
        let mut requests = 0;
        let mut pushed = HashSet::new();
        for name in &names {
            if pushed.contains(name) {
                continue;
            }
            requests += 1;
            plans.note_read(&snapshot, &at(&snapshot, name));
            for path in drain(&mut plans, &snapshot) {
                assert!(pushed.insert(path), "pushed twice");
            }
        }
        assert!(requests <= 6, "{requests} requests for 400 files");
    }

    #[test]
    fn one_read_brings_the_neighbours_and_nothing_more() {
        let names: Vec<_> = (0..400).map(|n| format!("d/f{n:03}")).collect();
        let files: Vec<_> = names.iter().map(|name| (&name[..], 15 << 10)).collect();
        let snapshot = snapshot(&files);
        let mut plans = Plans::default();
        list(&mut plans, &snapshot, "d");
        assert!(plans.note_read(&snapshot, &at(&snapshot, "d/f100")));
        let pushed = drain(&mut plans, &snapshot);
        assert!((2..=5).contains(&pushed.len()), "{pushed:?}");
        assert_eq!(pushed[0], "d/f101");
    }

    #[test]
    fn what_the_kernel_does_not_know_or_is_too_large_is_not_pushed() {
        let big = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
        let snapshot = snapshot(&[
            ("a", 9),
            ("b", big),
            ("c", 9),
            ("d/x", 9),
            ("e", 9),
            ("f", 0),
        ]);
        let mut plans = Plans::default();
        assert!(
            !plans.note_read(&snapshot, &at(&snapshot, "a")),
            "not listed"
        );
        let mut plans = Plans::default();
        list(&mut plans, &snapshot, "");
        plans.note_read(&snapshot, &at(&snapshot, "a"));
        assert_eq!(
            drain(&mut plans, &snapshot),
            ["c"],
            "stops before an unlisted directory"
        );
        assert!(
            list(&mut plans, &snapshot, "d"),
            "and goes on when it is listed"
        );
        assert_eq!(drain(&mut plans, &snapshot), ["d/x", "e"]);
    }

    #[test]
    fn what_was_read_is_not_pushed_until_the_kernel_forgot_it() {
        let names: Vec<_> = (0..200).map(|n| format!("d/f{n:03}")).collect();
        let files: Vec<_> = names.iter().map(|name| (&name[..], 9)).collect();
        let snapshot = snapshot(&files);
        let mut plans = Plans::default();
        for name in &names {
            plans.note_read(&snapshot, &at(&snapshot, name));
        }
        list(&mut plans, &snapshot, "d");
        assert!(!plans.note_read(&snapshot, &at(&snapshot, "d/f199")));
        assert!(drain(&mut plans, &snapshot).is_empty());
        plans.reads += FORGOTTEN_AFTER;
        assert!(plans.note_read(&snapshot, &at(&snapshot, "d/f000")));
        assert!(drain(&mut plans, &snapshot).len() > 50);
    }

    #[test]
    fn one_who_picks_a_file_here_and_there_gets_little_that_it_does_not_read() {
        let names: Vec<_> = (0..900).map(|n| format!("{:02}/f{n:03}", n / 30)).collect();
        let files: Vec<_> = names.iter().map(|name| (&name[..], 15 << 10)).collect();
        let snapshot = snapshot(&files);
        let mut plans = Plans::default();
        for n in 0..30 {
            list(&mut plans, &snapshot, &format!("{n:02}"));
        }
        let mut pushed = 0;
        for name in names.iter().step_by(30) {
            plans.note_read(&snapshot, &at(&snapshot, name));
            pushed += drain(&mut plans, &snapshot).len();
        }
        assert!(
            pushed <= 30 * 5,
            "{pushed} files pushed for 30 that were read"
        );
    }
}
