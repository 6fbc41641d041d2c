//! The man page and the completions in `docs` are what the program prints.

use crate::support::oracle::project;
use crate::support::{Host, Run, forgefs_program};

/// What is generated, and where it lies.
const GENERATED: &[(&str, &str)] = &[
    ("man", "docs/man/forgefs.1"),
    ("bash", "docs/completions/forgefs.bash"),
    ("fish", "docs/completions/forgefs.fish"),
    ("zsh", "docs/completions/_forgefs"),
];

#[test]
fn the_man_page_and_the_completions_are_what_the_program_prints() {
    let host = Host::new();
    for (target, file) in GENERATED {
        let printed = host.forgefs(["completions", target]).run();
        printed.exits(0);
        let path = project().join(file);
        if std::env::var_os("FORGEFS_UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, &printed.stdout).expect("a writable file");
        }
        let kept = std::fs::read(&path).unwrap_or_default();
        assert!(
            kept == printed.stdout,
            "{file} is not what `forgefs completions {target}` prints; \
             run FORGEFS_UPDATE=1 cargo test --test offline generated"
        );
    }
}

#[test]
fn the_man_page_is_one_that_man_can_show() {
    let host = Host::new();
    let page = host.forgefs(["completions", "man"]).run();
    let text = page.exits(0).out();
    for part in [
        ".TH forgefs",
        "FORGEFS MOUNT",
        "FORGEFS PROVE",
        "Exit codes",
    ] {
        assert!(text.contains(part), "no {part} in the man page");
    }
    // groff is not everywhere; where it is, it must have nothing to complain about.
    if Run::shell("command -v groff").run().code() == Some(0) {
        let shown = Run::new("groff")
            .args(["-man", "-Tutf8", "-ww"])
            .stdin(&page.stdout)
            .run();
        assert!(shown.exits(0).stderr.is_empty(), "{}", shown.report());
    }
    assert!(forgefs_program().exists());
}
