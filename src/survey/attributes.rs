//! Reads attribute files as far as the survey must: which attributes that change content on a
//! checkout are set anywhere (gitattributes(5)). Patterns are not matched; nothing is applied.

/// Which attributes were set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// `filter=lfs`.
    pub(super) lfs: bool,
    /// Names of other filters.
    pub(super) filters: Vec<String>,
    /// `text`, `eol`, `crlf` or `working-tree-encoding`.
    pub(super) line_ends: bool,
    /// `ident`, `export-ignore` or `export-subst`.
    pub(super) ident_export: bool,
}

/// How many names of filters are kept.
const FILTERS_MAX: usize = 20;

impl Attributes {
    /// Reads an attribute file; lines that do not parse are passed over, as git does.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            for word in after_pattern(line.trim_ascii())
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty())
            {
                found.take(word);
            }
        }
        found
    }

    /// Takes one word in; `-name` and `!name` switch off, which is what a snapshot has anyway.
    fn take(&mut self, word: &[u8]) {
        let (name, value) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (&word[..at], &word[at + 1..]),
            None => (word, &b""[..]),
        };
        match name {
            b"filter" if value == b"lfs" => self.lfs = true,
            b"filter" => {
                let name = value.escape_ascii().to_string();
                if self.filters.len() < FILTERS_MAX && !self.filters.contains(&name) {
                    self.filters.push(name);
                }
            }
            b"text" | b"eol" | b"crlf" | b"working-tree-encoding" => self.line_ends = true,
            b"ident" | b"export-ignore" | b"export-subst" => self.ident_export = true,
            _ => {}
        }
    }
}

/// Returns what follows the pattern of a line; a pattern may be quoted as in C. A macro line starts
/// with `[attr]NAME`, which is passed over like a pattern.
fn after_pattern(line: &[u8]) -> &[u8] {
    if line.starts_with(b"#") {
        return b"";
    }
    let quoted_end = || {
        let mut escaped = false;
        line.iter().skip(1).position(|byte| {
            let ends = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        })
    };
    let end = match line.first() {
        Some(b'"') => quoted_end().map(|at| at + 2),
        _ => line.iter().position(u8::is_ascii_whitespace),
    };
    end.and_then(|end| line.get(end..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r93_attributes_that_change_content_are_found_whatever_the_line_looks_like() {
        let lfs = Attributes {
            lfs: true,
            ..Attributes::default()
        };
        let ends = Attributes {
            line_ends: true,
            ..Attributes::default()
        };
        let export = Attributes {
            ident_export: true,
            ..Attributes::default()
        };
        let none = Attributes::default();
        for (text, want) in [
            ("*.bin filter=lfs diff=lfs merge=lfs -text\r\n", &lfs),
            ("\"a b\\\"\" filter=lfs", &lfs),
            ("[attr]big filter=lfs", &lfs),
            ("  *\ttext=auto", &ends),
            ("* eol=crlf", &ends),
            ("*.u working-tree-encoding=UTF-16LE-BOM", &ends),
            ("k ident", &export),
            ("k export-subst\nj export-ignore", &export),
            ("# * filter=lfs", &none),
            ("* -text !eol -filter", &none),
            ("* diff=x merge=union -ident", &none),
            ("filter=lfs", &none),
            ("\"unclosed filter=lfs", &none),
            ("", &none),
            ("\u{0}\n\u{feff}", &none),
        ] {
            assert_eq!(&Attributes::read(text.as_bytes()), want, "{text:?}");
        }
        assert_eq!(
            Attributes::read(b"* filter=shout\nx filter=shout filter").filters,
            ["shout", ""]
        );
    }
}
