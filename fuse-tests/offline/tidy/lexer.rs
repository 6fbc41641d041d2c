//! Enough of Rust's lexical rules to tell code from comments and strings.

/// Returns the text with comments and the insides of literals blanked, line for line.
pub(super) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    let mut blank = |from: usize, to: usize| {
        for byte in &mut code[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = at
            + if rest.starts_with(b"//") {
                rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                block_comment(rest)
            } else if let Some(len) = string(rest, at.checked_sub(1).map(|i| bytes[i])) {
                len
            } else {
                at += 1;
                continue;
            };
        blank(at, end);
        at = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Returns the length of the string or character literal that starts here, if one does.
fn string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    if (rest[0] == b'r' || rest.starts_with(b"br")) && !in_word {
        let from = if rest[0] == b'b' { 2 } else { 1 };
        let hashes = rest[from..].iter().take_while(|b| **b == b'#').count();
        if rest.get(from + hashes) == Some(&b'"') {
            let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let body = &rest[from + hashes + 1..];
            let len = body.windows(close.len()).position(|w| w == close)?;
            return Some(from + hashes + 1 + len + close.len());
        }
    }
    let quote = rest[0];
    if quote == b'\'' {
        // A lifetime has no closing quote after its first character.
        let escaped = rest.get(1) == Some(&b'\\');
        let wide = rest.get(1).map_or(1, |b| match b {
            0xf0.. => 4,
            0xe0.. => 3,
            0xc0.. => 2,
            _ => 1,
        });
        if !escaped && rest.get(1 + wide) != Some(&b'\'') {
            return None;
        }
    } else if quote != b'"' {
        return None;
    }
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Returns the words of a line of code: runs of letters, digits and `_`.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

#[test]
fn comments_and_literals_are_no_code() {
    for (text, want) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("f(\"b \\\" // c\") d", "f(           ) d"),
        ("r#\"a\"b\"# c", "         c"),
        ("'x' '\\'' c", "         c"),
        ("&'a str", "&'a str"),
        ("for \"x\" in r", "for     in r"),
    ] {
        assert_eq!(code_of(text), want, "{text}");
    }
}

/// Returns the text up to the tests at the bottom of the file; lines keep their numbers.
pub(super) fn without_tests(text: &str) -> &str {
    let at = text
        .match_indices("#[cfg(test)]\nmod ")
        .find(|(at, _)| text[*at..].lines().nth(1).is_some_and(|l| l.ends_with('{')));
    at.map_or(text, |(at, _)| &text[..at])
}
