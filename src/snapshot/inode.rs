//! Inode numbers: a pure function of the path, so that two mounts of one commit, and a worker that
//! restarts under a live mount, agree without sharing state (R20, ADR 0003).
//!
//! `ino(root) = 1`, `ino(dir/name) = SipHash-2-4(key = (ino(dir), SALT), name)` cut to 60 bits. The
//! four free bits keep the number positive as `i64` and leave overlayfs its `xino` bits. Two paths
//! of one commit with the same number are found when the second is loaded, and its directory is
//! refused (`inode-collision`); at a million paths that happens once in two million commits.

/// The number by which the kernel knows an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The root of the snapshot, by FUSE's rule.
    pub const ROOT: Self = Self(1);
}

const SALT: u64 = u64::from_le_bytes(*b"forgefs1");
const MASK: u64 = (1 << 60) - 1;

/// Returns the inode number of the entry `name` of the directory `parent`; never 0 or 1.
#[must_use]
pub fn child_ino(parent: Ino, name: &[u8]) -> Ino {
    let cut = siphash_2_4(parent.0, SALT, name) & MASK;
    Ino(if cut <= Ino::ROOT.0 { cut + 2 } else { cut })
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012). Here and not from `std`, whose hashers promise no
/// stable output between versions.
fn siphash_2_4(key_0: u64, key_1: u64, bytes: &[u8]) -> u64 {
    let mut v = [
        key_0 ^ 0x736f_6d65_7073_6575,
        key_1 ^ 0x646f_7261_6e64_6f6d,
        key_0 ^ 0x6c79_6765_6e65_7261,
        key_1 ^ 0x7465_6462_7974_6573,
    ];
    let mut absorb = |word: u64| {
        v[3] ^= word;
        sip_round(&mut v);
        sip_round(&mut v);
        v[0] ^= word;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len().to_le_bytes()[0];
    absorb(u64::from_le_bytes(last));
    v[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_the_paper() {
        // Key 00..0f; message 00..0e, the vector of appendix A, and two of the reference table.
        let key = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
        let low = key([0, 1, 2, 3, 4, 5, 6, 7]);
        let high = key([8, 9, 10, 11, 12, 13, 14, 15]);
        let message: Vec<u8> = (0..15).collect();
        for (len, want) in [
            (15, 0xa129_ca61_49be_45e5),
            (0, 0x726f_db47_dd0e_0e31),
            (8, 0x93f5_f579_9a93_2462),
        ] {
            assert_eq!(siphash_2_4(low, high, &message[..len]), want, "{len}");
        }
    }

    #[test]
    fn r20_numbers_are_fixed_for_ever_and_never_those_the_kernel_reserves() {
        // Pinned: a change of these numbers breaks a worker that restarts under a live mount.
        let src = child_ino(Ino::ROOT, b"src");
        assert_eq!(src, Ino(331_516_320_238_906_452));
        assert_eq!(child_ino(src, b"main.rs"), Ino(461_342_313_527_649_195));
        for n in 0..10_000_u32 {
            let ino = child_ino(src, &n.to_le_bytes());
            assert!(ino > Ino::ROOT && ino.0 <= MASK);
        }
    }
}
