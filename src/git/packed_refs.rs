//! Finds the refs below one prefix in `packed-refs` (gitrepository-layout(5)) without reading all
//! of it: git keeps the file sorted and says so in its first line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// A span that is read line by line rather than cut in half again, in bytes.
const SPAN_BYTES: u64 = 16 << 10;
/// The longest line that is read whole; longer ones are garbage.
const LINE_BYTES_MAX: u64 = 8 << 10;
/// Bytes of a file without order that are read at most.
const UNSORTED_BYTES_MAX: u64 = 64 << 20;

/// Calls `found` with what follows `prefix` in the name of each ref that starts with it.
///
/// # Errors
/// What reading says; or that the file is not sorted and over 64 MiB. Garbage is passed over.
pub(super) fn refs_below(
    file: &File,
    prefix: &[u8],
    mut found: impl FnMut(&[u8]),
) -> io::Result<()> {
    let len = file.metadata()?.len();
    let sorted = is_sorted(file)?;
    let start = if sorted {
        first_at_least(file, prefix, len)?
    } else {
        0
    };
    if !sorted && len > UNSORTED_BYTES_MAX {
        return Err(io::Error::other("it is over 64 MiB and not sorted"));
    }
    let mut file = file;
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let Some(name) = name_of(line.strip_suffix(b"\n").unwrap_or(&line)) else {
            continue;
        };
        if let Some(rest) = name.strip_prefix(prefix) {
            found(rest);
        } else if sorted && name > prefix {
            return Ok(());
        }
    }
}

fn is_sorted(file: &File) -> io::Result<bool> {
    let mut head = [0; 256];
    let read = file.read_at(&mut head, 0)?;
    let head = head.get(..read).unwrap_or_default();
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let traits = line.strip_prefix(b"# pack-refs with:").unwrap_or_default();
    Ok(traits
        .split(|byte| *byte == b' ')
        .any(|word| word == b"sorted"))
}

/// Returns where a line starts at or before the first name that is not below `prefix` in order.
fn first_at_least(file: &File, prefix: &[u8], len: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, len);
    let mut window = vec![0; usize::try_from(2 * LINE_BYTES_MAX).unwrap_or(usize::MAX)];
    while high.saturating_sub(low) > SPAN_BYTES {
        let middle = low + (high - low) / 2;
        let read = file.read_at(&mut window, middle)?;
        let window = window.get(..read).unwrap_or_default();
        match first_name(window) {
            Some((offset, name)) if name < prefix => low = middle + offset,
            Some(_) => high = middle,
            // No name in so many bytes: garbage, or a file that shrank; read on from here.
            None => return Ok(low),
        }
    }
    Ok(low)
}

/// Returns the first whole line of a ref in `window`, which may begin in the middle of a line.
fn first_name(window: &[u8]) -> Option<(u64, &[u8])> {
    let mut at = 0;
    loop {
        at += window.get(at..)?.iter().position(|byte| *byte == b'\n')? + 1;
        let rest = window.get(at..)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        if let Some(name) = name_of(rest.get(..end)?) {
            return Some((u64::try_from(at).ok()?, name));
        }
    }
}

/// Returns the name in `<id> SP <name>`; nothing for comments and for what tags peel to.
fn name_of(line: &[u8]) -> Option<&[u8]> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (id, name) = line.split_at(space);
    id.iter().all(u8::is_ascii_hexdigit).then(|| &name[1..])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn below(text: &[u8], prefix: &str) -> io::Result<Vec<String>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let mut names = Vec::new();
        refs_below(&file, prefix.as_bytes(), |name| {
            names.push(String::from_utf8_lossy(name).into_owned());
        })?;
        Ok(names)
    }

    /// A file as git writes it, with `count` branches and tags around the replacements.
    fn packed(header: &str, count: u32, replaced: u32) -> Vec<u8> {
        let id = "ab".repeat(20);
        let mut text = header.to_owned();
        for n in 0..count {
            text.push_str(&format!("{id} refs/heads/b{n:07}\n"));
        }
        for n in 0..replaced {
            text.push_str(&format!("{id} refs/replace/{n:040}\n"));
        }
        for n in 0..count {
            text.push_str(&format!("{id} refs/tags/t{n:07}\n^{id}\n"));
        }
        text.into_bytes()
    }

    #[test]
    fn r7_replacements_are_found_whatever_stands_around_them() {
        let sorted = "# pack-refs with: peeled fully-peeled sorted \n";
        for header in [sorted, "# pack-refs with: peeled\n", ""] {
            for (count, replaced) in [(0, 0), (0, 2), (1, 1), (1000, 0), (5000, 1), (5000, 900)] {
                let names = below(&packed(header, count, replaced), "refs/replace/").unwrap();
                let want: Vec<String> = (0..replaced).map(|n| format!("{n:040}")).collect();
                assert_eq!(names, want, "{header:?} {count}");
            }
        }
    }

    #[test]
    fn garbage_is_passed_over_and_ends() {
        let long = vec![b'x'; 100_000];
        for text in [&b""[..], b"\n\n\n", b" ", b"\0\xff \n", &long] {
            assert_eq!(below(text, "refs/replace/").unwrap(), Vec::<String>::new());
            let headed = [b"# pack-refs with: sorted\n", text, b"\n"].concat();
            assert_eq!(
                below(&headed, "refs/replace/").unwrap(),
                Vec::<String>::new()
            );
        }
    }
}
