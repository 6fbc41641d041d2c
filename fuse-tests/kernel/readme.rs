//! The commands of the README, run as they stand there.

use crate::support::oracle::project;
use crate::support::{Host, forgefs_program, need};

/// Returns the shell blocks of a page, with the heading above each.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let (mut heading, mut block) = (String::new(), None::<String>);
    for line in page.lines() {
        match (&mut block, line) {
            (None, "```sh") => block = Some(String::new()),
            (Some(text), "```") => {
                blocks.push((heading.clone(), std::mem::take(text)));
                block = None;
            }
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, line) if line.starts_with('#') => line.clone_into(&mut heading),
            _ => {}
        }
    }
    blocks
}

#[test]
fn the_commands_of_the_readme_work_as_they_stand() {
    need!(Fuse);
    let page = std::fs::read_to_string(project().join("README.md")).unwrap();
    let mut ran = 0;
    for (heading, block) in blocks(&page) {
        // Set-up and benches run elsewhere; containers have a target of their own.
        let elsewhere = ["./scripts/", "cargo ", "docker ", "podman ", "bwrap "];
        if elsewhere.iter().any(|word| block.contains(word)) || !block.contains("forgefs") {
            continue;
        }
        let host = Host::new();
        let repo = host.repo("home/src/linux");
        repo.commit_files(&[("README", b"hello\n"), ("src/main.c", b"int main;\n")]);
        let bin = host.dir("bin");
        std::os::unix::fs::symlink(forgefs_program(), bin.join("forgefs")).unwrap();
        let path = std::env::var("PATH").unwrap();
        let source = host.path("source").to_string_lossy().into_owned();
        let script = block.replace("/tmp/source", &source);
        let run = host.run("bash").args(["-euo", "pipefail", "-c", &script]);
        let run = run
            .env("PATH", format!("{}:{path}", bin.display()))
            .dir(repo.path());
        let finished = run.env("GIT_CONFIG_GLOBAL", "/dev/null").run();
        let lacks_jq = finished.code() == Some(127) && finished.err().contains("jq");
        assert!(
            finished.code() == Some(0) || lacks_jq,
            "{heading}\n{script}\n{}",
            finished.report()
        );
        ran += 1;
    }
    assert!(ran >= 2, "{ran} blocks ran");
}
