//! The parsers of everything that a hostile repository can hold, by bytes alone: for fuzzing, and
//! for the property test below, which mutates real inputs. Not an interface for others.

use super::store::parsers;
use super::{Commit, HashKind, Oid, Strictness, check_tree, entries};

/// One parser to feed bytes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The header of a pack entry.
    PackEntry,
    /// A delta; the first half of the bytes is its base.
    Delta,
    /// A pack index, then searched.
    Idx,
    /// A multi-pack-index, then searched.
    Midx,
    /// The header of a loose object, inflated.
    LooseHeader,
    /// A tree, and the strict rules on it.
    Tree,
    /// A commit.
    Commit,
    /// `objects/info/alternates`.
    Alternates,
    /// A repository's `config`.
    Config,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::PackEntry,
        Self::Delta,
        Self::Idx,
        Self::Midx,
        Self::LooseHeader,
        Self::Tree,
        Self::Commit,
        Self::Alternates,
        Self::Config,
    ];

    /// Parses `bytes` and forgets the result: the only way to fail is a panic, an endless loop, or
    /// an allocation far beyond the input.
    pub fn feed(self, bytes: &[u8]) {
        for hash_kind in [HashKind::Sha1, HashKind::Sha256] {
            match self {
                Self::PackEntry => parsers::pack_entry(bytes, hash_kind),
                Self::Delta => parsers::delta(bytes),
                Self::Idx => parsers::idx(bytes, hash_kind),
                Self::Midx => parsers::midx(bytes, hash_kind),
                Self::LooseHeader => parsers::loose_header(bytes),
                Self::Tree => {
                    let count = entries(bytes, hash_kind).count();
                    assert!(count <= bytes.len());
                    let _ = check_tree(bytes, hash_kind, Strictness::Admit);
                }
                Self::Commit => {
                    let _ = Commit::parse(Oid::empty_blob(hash_kind), bytes, hash_kind);
                }
                Self::Alternates => parsers::alternates(bytes),
                Self::Config => {
                    let _ = super::Format::read(bytes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Well-formed inputs, small enough to be mutated thoroughly.
    fn well_formed() -> Vec<Vec<u8>> {
        let id = Oid::empty_blob(HashKind::Sha1);
        let tree = super::super::encode_tree([
            (&b"100644"[..], &b"a"[..], &id),
            (&b"40000"[..], &b"b"[..], &id),
        ]);
        let commit = format!("tree {id}\nparent {id}\ncommitter a <b> 1700000000 +0000\n\nm\n");
        // Two ids, two offsets, one of them large.
        let mut idx = vec![0xff, 0x74, 0x4f, 0x63, 0, 0, 0, 2];
        let mut midx = b"MIDX\x01\x01\x05\x00\x00\x00\x00\x01".to_vec();
        let fanout: Vec<u8> = (0..256_u32)
            .flat_map(|n| u32::from(n >= 3).wrapping_mul(2).to_be_bytes())
            .collect();
        let ids = [[3_u8; 20], [3; 20]].concat();
        let large = 1_u64.to_be_bytes();
        idx.extend(
            [
                &fanout[..],
                &ids,
                &[0; 8],
                &[0, 0, 0, 12, 0x80, 0, 0, 0],
                &large,
            ]
            .concat(),
        );
        idx.extend([0; 40]);
        let chunks: [(&[u8; 4], &[u8]); 5] = [
            (b"PNAM", b"pack-1.idx\0\0"),
            (b"OIDF", &fanout),
            (b"OIDL", &ids),
            (
                b"OOFF",
                &[0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0x80, 0, 0, 0],
            ),
            (b"LOFF", &large),
        ];
        let mut at = 12 + 12 * 6_u64;
        for (name, content) in chunks {
            midx.extend(name);
            midx.extend(at.to_be_bytes());
            at += content.len() as u64;
        }
        midx.extend([0; 4]);
        midx.extend(at.to_be_bytes());
        midx.extend(
            chunks
                .iter()
                .flat_map(|(_, content)| content.iter().copied()),
        );
        midx.extend([0; 20]);
        vec![
            tree,
            commit.into_bytes(),
            idx,
            midx,
            b"blob 12\0".to_vec(),
            b"0123456789\x0a\x0f\x90\x0a\x05abcde".to_vec(),
            vec![0xe5, 0x8f, 0x01, 0x81, 0x00],
            b"# c\n\"a\\303\\244\"\n../b\n".to_vec(),
            b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha1\n"
                .to_vec(),
        ]
    }

    #[test]
    fn the_well_formed_seeds_parse() {
        let seeds = well_formed();
        assert!(parsers::idx_finds(&seeds[2], &[3; 20], 12));
        assert!(parsers::midx_finds(&seeds[3], &[3; 20], 12));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn r6_no_parser_panics_on_random_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            for target in Target::ALL {
                target.feed(&bytes);
            }
        }

        #[test]
        fn r6_no_parser_panics_on_mutated_bytes(
            seed in 0_usize..9,
            flips in proptest::collection::vec(
                (any::<proptest::sample::Index>(), any::<u8>()),
                0..8
            ),
            cut in any::<proptest::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let mut bytes = well_formed().swap_remove(seed);
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if is_cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            for target in Target::ALL {
                target.feed(&bytes);
            }
        }
    }
}
