//! The rows of what lies around the objects: settings, boundaries, substitutions, promises.

use super::feature::Feature;
use super::feature::Verdict::{Noted, Supported, Unsupported};
use super::rows::{Table, absent, present};
use crate::git::{HashKind, RefStorage};
use crate::sys::process::effective_ids;

impl Table<'_> {
    pub(super) fn sparse(&self) -> Feature {
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

    pub(super) fn partial(&self) -> Feature {
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
                "a partial clone: what was promised by the promisor {remote} and is not here \
                 cannot be read, and nothing is fetched; {fetch}"
            ),
        };
        present("partial", (verdict, verdict), detail).at(&self.found.missing)
    }

    pub(super) fn shallow(&self) -> Feature {
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

    pub(super) fn substitution(&self) -> Feature {
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
        if self.facts.ref_storage == RefStorage::Reftable {
            row.detail
                .push_str("; replace refs in a reftable are not looked for, and change nothing");
        }
        row
    }

    pub(super) fn alternates(&self) -> Feature {
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

    pub(super) fn object_format(&self) -> Feature {
        let kind = self.facts.hash_kind;
        let mut row = absent("object-format", format!("ids are {kind}"));
        row.present = kind != HashKind::Sha1;
        row
    }

    pub(super) fn ref_storage(&self) -> Feature {
        let (present, detail) = match self.facts.ref_storage {
            RefStorage::Files => (false, "refs are files"),
            RefStorage::Reftable => (true, "refs are a reftable; reading by id needs no ref"),
        };
        let mut row = absent("ref-storage", detail);
        row.present = present;
        row
    }

    pub(super) fn linked_worktree(&self) -> Feature {
        let mut row = absent("linked-worktree", "a repository of its own");
        if self.facts.linked_worktree {
            row.present = true;
            row.detail = "a linked work tree; objects come from the main repository".into();
        }
        row
    }

    pub(super) fn owner(&self) -> Feature {
        let mut row = absent("owner", "the repository belongs to you");
        let (caller, _) = effective_ids();
        if let Some(uid) = self.facts.owner_uid.filter(|uid| *uid != caller) {
            row.present = true;
            row.detail = format!(
                "the repository belongs to uid {uid}, you are {caller}; its settings and hooks are \
                 not used, and every object is verified"
            );
        }
        row
    }

    pub(super) fn unread_settings(&self) -> Feature {
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
