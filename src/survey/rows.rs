//! The table: from what was found to a row for each feature, with verdict and sentence (R89..R96).

use super::Depth;
use super::feature::{Feature, Place, Places, Verdict};
use super::walk::Findings;
use crate::git::{Commit, HashKind, RefStorage, Repository, RepositoryFacts};
use crate::sys::effective_uid;

use Verdict::{Noted, Supported, Unsupported};

/// Returns all rows, in the order of R89.
pub(super) fn rows(
    repository: &Repository,
    facts: &RepositoryFacts,
    findings: &Findings,
    commit: &Commit,
    depth: Depth,
) -> Vec<Feature> {
    let table = Table {
        repository,
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

struct Table<'a> {
    repository: &'a Repository,
    facts: &'a RepositoryFacts,
    found: &'a Findings,
    full: bool,
}

/// A row of something that is not there.
fn absent(name: &'static str, detail: impl Into<String>) -> Feature {
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
fn present(name: &'static str, (snapshot, seed): (Verdict, Verdict), detail: String) -> Feature {
    Feature {
        present: true,
        snapshot,
        seed,
        ..absent(name, detail)
    }
}

impl Feature {
    fn at(mut self, places: &Places) -> Self {
        self.count = places.count;
        self.paths.clone_from(&places.first);
        self
    }

    fn at_name(mut self, path: &str) -> Self {
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

    fn sparse(&self) -> Feature {
        match (self.facts.sparse_checkout, self.facts.sparse_index) {
            (false, false) => absent("sparse", "the work tree leaves nothing out"),
            (sparse, index) => {
                let what = if sparse { "checkout" } else { "index" };
                let detail = format!("the sparse {what} is ignored: all paths are there");
                let row = present("sparse", (Noted, Noted), detail);
                let row = if sparse { row.at_name("config") } else { row };
                if index { row.at_name("index") } else { row }
            }
        }
    }

    fn partial(&self) -> Feature {
        let facts = self.facts;
        let remote = facts.promisor_remote.as_deref();
        if remote.is_none() && facts.promisor_packs == 0 {
            return absent("partial", "the repository is no partial clone");
        }
        let remote = remote.unwrap_or("origin").escape_debug().to_string();
        let fetch = format!("fetch it first: git fetch --refetch --no-filter {remote}");
        let missing = self.found.missing.count;
        let verdict = if missing > 0 { Unsupported } else { Noted };
        let detail = match (self.full, missing) {
            (true, 0) => format!("a partial clone of the promisor {remote}; this commit is whole"),
            (true, _) => format!(
                "{missing} objects of this commit were promised by the promisor {remote} and are \
                 not here; {fetch}"
            ),
            (false, _) => format!(
                "a partial clone: what the promisor {remote} keeps is not fetched and cannot be \
                 read; {fetch}"
            ),
        };
        present("partial", (verdict, verdict), detail).at(&self.found.missing)
    }

    fn shallow(&self) -> Feature {
        match self.facts.shallow_commits {
            0 => absent("shallow", "the history is not cut off"),
            count => {
                let detail = format!(
                    "the history is cut off at {count} commits; the files of a commit are not"
                );
                present("shallow", (Noted, Noted), detail).at_name("shallow")
            }
        }
    }

    fn substitution(&self) -> Feature {
        let facts = self.facts;
        let mut row = absent("substitution", "");
        let mut said = Vec::new();
        if !facts.replacements.is_empty() {
            said.push(format!("{} replace refs", facts.replacements.count));
            for id in &facts.replacements.first {
                row = row.at_name(&format!("refs/replace/{}", id.escape_ascii()));
            }
            row.count = facts.replacements.count;
        }
        if facts.grafts > 0 {
            said.push(format!("{} grafts", facts.grafts));
            row = row.at_name("info/grafts");
        }
        let changes_git = !said.is_empty();
        if facts.commit_graph {
            said.push("a commit-graph".into());
            row = row.at_name("objects/info/commit-graph");
        }
        row.present = !said.is_empty();
        row.detail = match (row.present, changes_git) {
            (false, _) => "no grafts, replace refs or commit-graph".into(),
            (_, true) => format!(
                "{} are ignored: an id is what it was, which may differ from what git shows",
                said.join(", ")
            ),
            (_, false) => "a commit-graph is there and not read".into(),
        };
        if changes_git {
            (row.snapshot, row.seed) = (Noted, Noted);
        }
        if self.repository.ref_storage == RefStorage::Reftable {
            row.detail
                .push_str("; replace refs in a reftable are not looked for, and change nothing");
        }
        row
    }

    fn alternates(&self) -> Feature {
        let stores = &self.facts.alternates;
        if stores.is_empty() {
            return absent("alternates", "no object is borrowed from another store");
        }
        let detail = format!(
            "objects are borrowed from {} other stores, which must stay while it is mounted",
            stores.count
        );
        let mut row = present("alternates", (Noted, Supported), detail);
        for store in &stores.first {
            row = row.at_name(&String::from_utf8_lossy(store));
        }
        row.count = stores.count;
        row
    }

    fn object_format(&self) -> Feature {
        let kind = self.repository.hash_kind;
        let mut row = absent("object-format", format!("ids are {kind}"));
        row.present = kind != HashKind::Sha1;
        row
    }

    fn ref_storage(&self) -> Feature {
        let (present, detail) = match self.repository.ref_storage {
            RefStorage::Files => (false, "refs are files"),
            RefStorage::Reftable => (true, "refs are a reftable; reading by id needs no ref"),
        };
        let mut row = absent("ref-storage", detail);
        row.present = present;
        row
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
            "long-attributes",
            &self.found.attributes_unread,
            (Noted, Noted),
            "these attribute files are over 1 MiB and were not looked into",
        )
    }

    fn linked_worktree(&self) -> Feature {
        let mut row = absent("linked-worktree", "a repository of its own");
        if self.facts.linked_worktree {
            row.present = true;
            row.detail = "a linked work tree; objects come from the main repository".into();
        }
        row
    }

    fn owner(&self) -> Feature {
        let mut row = absent("owner", "the repository belongs to you");
        let caller = effective_uid();
        if let Some(uid) = self.facts.owner_uid.filter(|uid| *uid != caller) {
            row.present = true;
            row.detail = format!(
                "the repository belongs to uid {uid}, you are {caller}; its settings and hooks are \
                 not used, and every object is verified"
            );
        }
        row
    }

    fn unread_settings(&self) -> Feature {
        let unread = &self.facts.unread;
        if unread.is_empty() {
            return absent("unread-settings", "all were read");
        }
        let detail = "these could not be looked into; they change nothing of what is shown";
        let mut row = present("unread-settings", (Noted, Noted), detail.into());
        for what in unread {
            row = row.at_name(what);
        }
        row
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
