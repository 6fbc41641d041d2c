//! A manifest, `forgefs.manifest/1`: a commit and all its trees in one file, so that a place
//! without the repository can prove (R34).
//!
//! It vouches for itself: the commit's bytes hash to the commit's id and name the root tree, each
//! tree's entries encode to bytes that hash to its id. Only the commit's id must be known from
//! elsewhere. It is read as a stream; each tree is encoded while it is parsed, nothing else kept.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::expect::Plan;
use super::record::to_hex;
use crate::budget::Limits;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::git::{
    HashKind, Kind, MemorySource, ObjectSource, Oid, empty_tree_id, entries, load_commit,
    parse_full_id,
};

/// The largest manifest that is read: about ten million entries.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

const SCHEMA: &str = "forgefs.manifest/1";

/// A commit and its trees, each of which was found to hash to its id.
pub struct Manifest {
    /// The commit.
    pub commit_id: Oid,
    /// The commit and its trees; no blobs.
    pub objects: Arc<dyn ObjectSource>,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({})", self.commit_id)
    }
}

/// What came of reading a manifest.
#[derive(Debug)]
pub enum ManifestReading {
    /// All of it hashes to what it says.
    Sound(Manifest),
    /// Something does not; the sentence says what. A negative verdict, not an error.
    Forged(String),
}

/// One entry: mode as it stands in the tree, id, name; for a name that is not UTF-8 the name is
/// empty and its bytes follow in hex.
#[derive(Serialize)]
struct EntryOut<'a>(
    &'a str,
    String,
    &'a str,
    #[serde(skip_serializing_if = "Option::is_none")] Option<String>,
);

/// Writes the manifest of a commit: one line for each tree, always the same bytes.
///
/// # Errors
/// As for a proof where the commit or one of its trees cannot be read or is over `limits`; errors
/// of `out`.
pub fn write_manifest(
    objects: &dyn ObjectSource,
    commit_id: &Oid,
    limits: &Limits,
    threads: u16,
    out: &mut dyn Write,
) -> Result<()> {
    let plan = Plan::load(objects, commit_id, limits, threads)?;
    let commit = objects.read(commit_id, Kind::Commit)?;
    let trees = plan.trees_in_order()?;
    put(
        out,
        format_args!(
            "{{\"schema\":\"{SCHEMA}\",\"object_format\":\"{}\"",
            plan.hash_kind
        ),
    )?;
    put(
        out,
        format_args!(
            ",\"commit\":\"{commit_id}\",\"tree\":\"{}\"",
            plan.commit.tree_id
        ),
    )?;
    put(
        out,
        format_args!(",\"commit_hex\":\"{}\",\"trees\":[", to_hex(&commit)),
    )?;
    for (place, (id, bytes)) in trees.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        put(
            out,
            format_args!("{comma}\n{{\"id\":\"{id}\",\"entries\":["),
        )?;
        for (place, entry) in entries(bytes, plan.hash_kind).enumerate() {
            let entry = entry?;
            let comma = if place == 0 { "" } else { "," };
            let mode = String::from_utf8_lossy(entry.raw_mode);
            let id = entry.id.to_string();
            let entry = match std::str::from_utf8(entry.name) {
                Ok(name) => EntryOut(&mode, id, name, None),
                Err(_) => EntryOut(&mode, id, "", Some(to_hex(entry.name))),
            };
            let text =
                serde_json::to_string(&entry).context(ErrorKind::Internal, "internal", || {
                    String::from("cannot write an entry as JSON")
                })?;
            put(out, format_args!("{comma}{text}"))?;
        }
        put(out, format_args!("]}}"))?;
    }
    put(out, format_args!("\n]}}\n"))
}

fn put(out: &mut dyn Write, text: fmt::Arguments<'_>) -> Result<()> {
    out.write_fmt(text)
        .map_err(|error| Error::io("cannot write the manifest", error))
}

impl Manifest {
    /// Reads a manifest and hashes all of it.
    ///
    /// # Errors
    /// `bad-manifest` where it is no manifest at all, `manifest-too-large`, or errors of `input`.
    /// A manifest whose parts do not hash to what it says is no error, but
    /// [`ManifestReading::Forged`].
    pub fn read(input: impl Read) -> Result<ManifestReading> {
        let mut input = input.take(MANIFEST_BYTES_MAX + 1);
        let mut source = serde_json::Deserializer::from_reader(&mut input);
        let read = Parts::deserialize(&mut source).and_then(|parts| {
            source.end()?;
            Ok(parts)
        });
        drop(source);
        if input.limit() == 0 {
            let message = format!("the manifest has more than {MANIFEST_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Budget, "manifest-too-large", message));
        }
        let parts = read.map_err(|error| match error.io_error_kind() {
            Some(kind) => Error::io("cannot read the manifest", kind.into()),
            None => Error::new(
                ErrorKind::Corrupt,
                "bad-manifest",
                "this is not a manifest of forgefs",
            )
            .caused_by(error),
        })?;
        parts.judge()
    }
}

/// A manifest as it was parsed. A manifest is exactly this: a field more is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    schema: String,
    object_format: String,
    commit: String,
    tree: String,
    commit_hex: String,
    trees: Vec<TreePart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreePart {
    id: String,
    entries: Encoded,
}

/// The entries of one tree, encoded as git does while they are parsed.
struct Encoded(Vec<u8>);

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EncodedVisitor)
    }
}

struct EncodedVisitor;

impl<'de> Visitor<'de> for EncodedVisitor {
    type Value = Encoded;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of [mode, id, name]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Encoded, A::Error> {
        let mut bytes = Vec::new();
        while let Some(EntryIn { mode, id, name }) = seq.next_element()? {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(&name);
            bytes.push(0);
            // An id that is not hex encodes to nothing, and the tree will not hash to its id.
            bytes.extend_from_slice(&from_hex(&id).unwrap_or_default());
        }
        Ok(Encoded(bytes))
    }
}

struct EntryIn {
    mode: String,
    id: String,
    name: Vec<u8>,
}

impl<'de> Deserialize<'de> for EntryIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = EntryIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[mode, id, name] or [mode, id, \"\", name in hex]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EntryIn, A::Error> {
        let short = || A::Error::custom("an entry has less than three parts");
        let mode = seq.next_element()?.ok_or_else(short)?;
        let id = seq.next_element()?.ok_or_else(short)?;
        let name: String = seq.next_element()?.ok_or_else(short)?;
        let name = match seq.next_element::<String>()? {
            Some(hex) => from_hex(&hex).ok_or_else(|| A::Error::custom("a name is not hex"))?,
            None => name.into_bytes(),
        };
        Ok(EntryIn { mode, id, name })
    }
}

impl Parts {
    fn judge(self) -> Result<ManifestReading> {
        let hash_kind = match (self.schema.as_str(), self.object_format.as_str()) {
            (SCHEMA, "sha1") => HashKind::Sha1,
            (SCHEMA, "sha256") => HashKind::Sha256,
            _ => {
                let message = format!("the manifest is not {SCHEMA} with sha1 or sha256");
                return Err(Error::new(ErrorKind::Corrupt, "bad-manifest", message));
            }
        };
        let mut objects = MemorySource::new(hash_kind);
        let commit = from_hex(&self.commit_hex).unwrap_or_default();
        let parts = std::iter::once((Kind::Commit, self.commit.clone(), commit))
            .chain((self.trees.into_iter()).map(|part| (Kind::Tree, part.id, part.entries.0)));
        for (kind, id, bytes) in parts {
            let why = match objects.insert(kind, bytes) {
                Ok(found) if says(&id, found) => continue,
                Ok(found) => format!("its {kind} {} hashes to {found}", shown(&id)),
                Err(error) => format!("its {kind} {}: {error}", shown(&id)),
            };
            return Ok(ManifestReading::Forged(why));
        }
        // The loop began with the commit and found that its text is an id.
        let commit_id = parse_full_id(&self.commit)?;
        let commit = load_commit(&objects, &commit_id)?;
        let root = commit.tree_id;
        if !says(&self.tree, root) {
            let why = format!("its commit names tree {root}, not {}", shown(&self.tree));
            return Ok(ManifestReading::Forged(why));
        }
        if root != empty_tree_id(hash_kind) && objects.header(&root).is_err() {
            return Ok(ManifestReading::Forged(format!(
                "it lacks the root tree {root}"
            )));
        }
        Ok(ManifestReading::Sound(Manifest {
            commit_id,
            objects: Arc::new(objects),
        }))
    }
}

/// Whether `text` is the full id `id`.
fn says(text: &str, id: Oid) -> bool {
    parse_full_id(text).is_ok_and(|said| said == id)
}

/// The start of a text from a manifest, safe to print.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(64).collect();
    format!("{start:?}")
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let mut pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs
        .by_ref()
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    pairs.remainder().is_empty().then_some(bytes).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::git::encode_tree;

    fn sample() -> String {
        let mut objects = MemorySource::new(HashKind::Sha1);
        let blob_id = Oid::empty_blob(HashKind::Sha1);
        let parts = [(&b"100644"[..], &b"\xff"[..], &blob_id)];
        let inner = objects.insert(Kind::Tree, encode_tree(parts)).unwrap();
        let parts = [
            (&b"100664"[..], &b"a\""[..], &blob_id),
            (b"40000", b"d", &inner),
        ];
        let tree = objects.insert(Kind::Tree, encode_tree(parts)).unwrap();
        let commit = objects
            .insert(Kind::Commit, format!("tree {tree}\n\nx"))
            .unwrap();
        let mut out = Vec::new();
        write_manifest(&objects, &commit, &Limits::default(), 1, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_with_odd_names_and_modes() {
        let text = sample();
        let Ok(ManifestReading::Sound(manifest)) = Manifest::read(text.as_bytes()) else {
            panic!("it is sound");
        };
        let mut again = Vec::new();
        let objects = &*manifest.objects;
        let id = &manifest.commit_id;
        write_manifest(objects, id, &Limits::default(), 1, &mut again).unwrap();
        assert_eq!(text.as_bytes(), again);
    }

    proptest! {
        #[test]
        fn any_edit_is_refused_or_changes_nothing(
            at in any::<prop::sample::Index>(), with in any::<Vec<u8>>(), cut in 0_usize..80,
        ) {
            let text = sample().into_bytes();
            let at = at.index(text.len());
            let end = (at + cut).min(text.len());
            let mut edited = text.clone();
            edited.splice(at..end, with);
            if let Ok(ManifestReading::Sound(manifest)) = Manifest::read(edited.as_slice()) {
                let Ok(ManifestReading::Sound(sound)) = Manifest::read(text.as_slice()) else {
                    panic!("the sample is sound");
                };
                prop_assert_eq!(manifest.commit_id, sound.commit_id);
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in any::<Vec<u8>>()) {
            let _ = Manifest::read(bytes.as_slice());
        }
    }
}
