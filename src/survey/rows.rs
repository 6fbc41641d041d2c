//! The table: from what was found to a row for each feature, with verdict and sentence (R89..R96).

use super::Depth;
use super::feature::{Feature, Place, Places, Verdict};
use super::walk::Findings;
use crate::git::{Commit, RepositoryFacts};

use Verdict::{Noted, Supported, Unsupported};

/// Returns all rows, in the order of R89.
pub(super) fn rows(
    facts: &RepositoryFacts,
    findings: &Findings,
    commit: &Commit,
    depth: Depth,
) -> Vec<Feature> {
    let table = Table {
        facts,
        found: findings,
        full: depth == Depth::Full,
    };
    let mut rows = vec![
        table.submodules(),
        table.lfs(),
        table.filters(),
        table.eol_encoding(),
        table.ident_export(),
        table.sparse(),
        table.partial(),
        table.shallow(),
        table.substitution(),
        table.alternates(),
        table.object_format(),
        table.ref_storage(),
    ];
    rows.extend(table.of_the_tree());
    rows.extend([
        commit_time(commit),
        table.linked_worktree(),
        table.owner(),
        table.unread_settings(),
    ]);
    for (rank, row) in rows.iter_mut().enumerate() {
        row.rank = rank;
    }
    rows
}

/// What the rows are made from.
pub(super) struct Table<'a> {
    pub(super) facts: &'a RepositoryFacts,
    pub(super) found: &'a Findings,
    pub(super) full: bool,
}

/// A row of something that is not there.
pub(super) fn absent(name: &'static str, detail: impl Into<String>) -> Feature {
    Feature {
        name,
        rank: 0,
        present: false,
        snapshot: Supported,
        seed: Supported,
        count: 0,
        paths: Vec::new(),
        detail: detail.into(),
    }
}

/// A row of something that is there.
pub(super) fn present(
    name: &'static str,
    (snapshot, seed): (Verdict, Verdict),
    detail: String,
) -> Feature {
    Feature {
        present: true,
        snapshot,
        seed,
        ..absent(name, detail)
    }
}

impl Feature {
    pub(super) fn at(mut self, places: &Places) -> Self {
        self.count = places.count;
        self.paths.clone_from(&places.first);
        self
    }

    pub(super) fn at_name(mut self, path: &str) -> Self {
        self.count += 1;
        self.paths.push(Place {
            path: path.to_owned(),
            id: None,
            what: None,
        });
        self
    }
}

impl Table<'_> {
    /// A row of something in the tree that was not found, with how far it was looked for.
    fn none(&self, name: &'static str) -> Feature {
        absent(
            name,
            if self.full {
                "none"
            } else {
                "none in the root directory; only `forgefs doctor` looks further"
            },
        )
    }

    /// A row of something in the tree.
    fn placed(
        &self,
        name: &'static str,
        places: &Places,
        verdicts: (Verdict, Verdict),
        detail: &str,
    ) -> Feature {
        if places.is_empty() {
            return self.none(name);
        }
        present(name, verdicts, detail.to_owned()).at(places)
    }

    fn submodules(&self) -> Feature {
        if self.found.submodules.is_empty() && self.found.has_gitmodules {
            let detail = "`.gitmodules` is there, and no entry that was looked at is a submodule";
            return present("submodules", (Noted, Noted), detail.into()).at_name(".gitmodules");
        }
        self.placed(
            "submodules",
            &self.found.submodules,
            (Noted, Noted),
            "each is an empty directory; nothing is fetched and no url is followed",
        )
    }

    fn lfs(&self) -> Feature {
        self.placed(
            "lfs",
            &self.found.lfs,
            (Noted, Noted),
            "files kept by Git LFS show their pointer text; run `git lfs pull` where you work",
        )
    }

    fn filters(&self) -> Feature {
        let drivers: Vec<&str> = self
            .facts
            .filter_drivers
            .iter()
            .map(String::as_str)
            .filter(|driver| *driver != "lfs")
            .collect();
        let detail = "no filter is run; bytes are as they are stored";
        if !self.found.filters.is_empty() || drivers.is_empty() {
            return self.placed("filters", &self.found.filters, (Noted, Noted), detail);
        }
        let detail = format!("{detail}; set up in config: {}", drivers.join(", "));
        present("filters", (Noted, Noted), detail).at_name("config")
    }

    fn eol_encoding(&self) -> Feature {
        let settings = self.facts.line_end_settings.join(", ");
        let mut detail = String::from(
            "line ends and encodings are as they are stored; git may call such files modified \
             in a work tree",
        );
        if !settings.is_empty() {
            detail = format!("{detail}; set in config: {settings}");
        }
        if self.found.line_ends.is_empty() && !settings.is_empty() {
            return present("eol-encoding", (Noted, Noted), detail).at_name("config");
        }
        let places = &self.found.line_ends;
        self.placed("eol-encoding", places, (Noted, Noted), &detail)
    }

    fn ident_export(&self) -> Feature {
        self.placed(
            "ident-export",
            &self.found.ident_export,
            (Noted, Noted),
            "keywords are not expanded and no path is left out: bytes are as they are stored",
        )
    }

    fn of_the_tree(&self) -> [Feature; 8] {
        let found = self.found;
        let row = |name, places, verdicts, detail| self.placed(name, places, verdicts, detail);
        let unsupported = (Unsupported, Unsupported);
        [
            row(
                "noncanonical-modes",
                &found.noncanonical_modes,
                (Noted, Noted),
                "modes that git no longer writes show as 644, 755 or a directory; the proof holds",
            ),
            row(
                "bad-trees",
                &found.bad_trees,
                unsupported,
                "git fsck --strict calls these directories broken; they are never shown",
            ),
            row(
                "long-names",
                &found.long_names,
                (Noted, Unsupported),
                "the kernel takes names of 255 bytes; these cannot be opened, and a proof fails",
            ),
            row(
                "long-links",
                &found.bad_links,
                (Noted, Unsupported),
                "the kernel takes targets of 1 to 4095 bytes without NUL; these cannot be read",
            ),
            row(
                "git-file-links",
                &found.git_file_links,
                (Noted, Noted),
                "git refuses or ignores these links in a checkout; here they are plain links",
            ),
            self.missing_objects(),
            row(
                "corrupt-objects",
                &found.corrupt,
                unsupported,
                "these objects are broken in the store; reading them is an error",
            ),
            self.attributes_unread(),
        ]
    }

    fn missing_objects(&self) -> Feature {
        if !self.full {
            return absent(
                "missing-objects",
                "not looked for; only `forgefs doctor` and `forgefs prove` do",
            );
        }
        self.placed(
            "missing-objects",
            &self.found.missing,
            (Unsupported, Unsupported),
            "these objects are not in the store; reading them is an error",
        )
    }

    fn attributes_unread(&self) -> Feature {
        self.placed(
            "unread-attributes",
            &self.found.attributes_unread,
            (Noted, Noted),
            "these attribute files are over 1 MiB or cannot be read, and were not looked into",
        )
    }
}

fn commit_time(commit: &Commit) -> Feature {
    match commit.committed_at_s {
        Some(_) => absent("commit-time", "the committer's time is in range"),
        None => present(
            "commit-time",
            (Noted, Noted),
            "the committer's time is unreadable or out of range; every entry shows second 1".into(),
        ),
    }
}
