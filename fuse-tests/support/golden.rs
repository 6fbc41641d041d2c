//! Golden files (R129): what a verb prints, word for word, with what differs from run to run
//! masked.
//! `FORGEFS_UPDATE=1` writes them anew; the diff then shows what scripts would notice.

use serde_json::Value;

use super::command::Finished;
use super::host::Host;
use super::oracle::project;

/// Members of JSON records that differ from run to run or from host to host.
const MASKED: &[&str] = &[
    "age_s",
    "created_s",
    "detail",
    "start_ticks",
    "connection",
    "dev",
    "fstype",
    "finished",
    "id",
    "ino",
    "log",
    "mnt_id",
    "mnt_id_unique",
    "mounted_at",
    "pid",
    "record",
    "start_time",
    "started",
    "tool",
    "worker_pid",
];

/// How much of a JSON object is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Names and values, but for masked ones.
    Values,
    /// Names alone: the values are the host's.
    Names,
}

/// Compares what was printed with `fuse-tests/golden/NAME`.
#[track_caller]
pub(crate) fn assert_golden(host: &Host, name: &str, words: &str, finished: &Finished, keep: Keep) {
    let code = finished.code().unwrap_or(-1);
    let mut text = format!("$ forgefs {words}\nexit {code}\n");
    for (title, bytes) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
        text.push_str(&format!("--- {title}\n"));
        let said = String::from_utf8_lossy(bytes);
        match serde_json::from_slice::<Value>(bytes) {
            Ok(mut record) => {
                mask(&mut record, keep);
                let pretty = serde_json::to_string_pretty(&record).expect("a record");
                text.push_str(&pretty);
                text.push('\n');
            }
            Err(_) => text.push_str(&said),
        }
    }
    let text = without_places(host, &text);
    let path = project().join("fuse-tests/golden").join(name);
    if std::env::var_os("FORGEFS_UPDATE").is_some() {
        std::fs::write(&path, &text).expect("a writable folder");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "fuse-tests/golden/{name} differs; if the change is meant, run the test with \
         FORGEFS_UPDATE=1\n--- kept\n{kept}\n--- now\n{text}"
    );
}

/// Masks what differs, and sorts members by name.
fn mask(value: &mut Value, keep: Keep) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if name == "schema" || name == "code" || name == "exit" {
                    continue;
                }
                if MASKED.contains(&name.as_str()) {
                    *member = Value::from("*");
                } else {
                    mask(member, keep);
                }
            }
            members.sort_keys();
        }
        Value::Array(items) if keep == Keep::Names => {
            items.truncate(1);
            items.iter_mut().for_each(|item| mask(item, keep));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, keep)),
        leaf if keep == Keep::Names => *leaf = Value::from("*"),
        _ => {}
    }
}

/// Replaces this host's paths, process ids and the program's version.
fn without_places(host: &Host, text: &str) -> String {
    let root = host.path("");
    let root = root.to_string_lossy();
    let text = text
        .replace(root.trim_end_matches('/'), "HOST")
        .replace(env!("CARGO_PKG_VERSION"), "VERSION");
    mask_number(&mask_number(&text, "pid "), " B in ")
}

/// Replaces the number after each `word` by a star.
fn mask_number(text: &str, word: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (head, tail) = rest.split_at(at + word.len());
        masked.push_str(head);
        let number = tail.chars().take_while(|c| c.is_ascii_digit() || *c == '.');
        let len = number.count();
        if len > 0 {
            masked.push('*');
        }
        rest = &tail[len..];
    }
    masked + rest
}
