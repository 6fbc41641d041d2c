//! What a user would pick instead: a checkout, a clone, an archive, or a kernel image.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::inputs::Input;
use crate::run::{Res, Timing, command, git, output, remove_tree, script, time};

/// One thing that is measured beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A forgefs mount.
    Forgefs,
    /// `git worktree add` with two workers.
    Checkout,
    /// A plain EROFS image, mounted by a loop device.
    Erofs,
    /// A squashfs image (lz4), mounted by a loop device.
    Squashfs,
}

impl Subject {
    /// Returns the name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forgefs => "forgefs",
            Self::Checkout => "checkout",
            Self::Erofs => "erofs",
            Self::Squashfs => "squashfs",
        }
    }
}

/// Where the rivals of one run stand.
#[derive(Debug, Clone)]
pub(crate) struct Rivals {
    dir: PathBuf,
    mnt: PathBuf,
}

impl Rivals {
    /// Names the places below `work`; makes nothing.
    pub(crate) fn new(work: &Path) -> Self {
        Self {
            dir: work.join("rivals"),
            mnt: work.join("mnt"),
        }
    }

    /// Returns the directory that shows `subject`'s files.
    pub(crate) fn root(&self, subject: Subject) -> PathBuf {
        match subject {
            Subject::Checkout => self.dir.join("checkout"),
            other => self.mnt.join(other.name()),
        }
    }

    /// Returns the tree that `git archive | tar x` made: the reference for bytes, and what the
    /// images are made of.
    pub(crate) fn archive_root(&self) -> PathBuf {
        self.dir.join("archive")
    }

    /// Returns a place for something short-lived.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn image(&self, subject: Subject) -> PathBuf {
        self.dir.join(format!("{}.img", subject.name()))
    }

    /// Makes what the chosen scenarios read and is not there yet.
    pub(crate) fn build(&self, input: &Input, subjects: &[Subject]) -> Res<()> {
        std::fs::create_dir_all(&self.dir)?;
        for subject in subjects {
            match subject {
                Subject::Forgefs => {}
                Subject::Checkout => {
                    self.once("checkout", |root| worktree_add(input, root, 2).map(drop))?;
                }
                Subject::Erofs | Subject::Squashfs => {
                    self.build_archive(input)?;
                    if !self.image(*subject).exists() {
                        self.build_image(*subject)?;
                    }
                    self.mount_image(*subject)?;
                }
            }
        }
        output(&mut command("sync")).map(drop)
    }

    /// Makes the reference tree unless it is there.
    pub(crate) fn build_archive(&self, input: &Input) -> Res<()> {
        std::fs::create_dir_all(&self.dir)?;
        self.once("archive", |root| archive(input, root).map(drop))
    }

    fn once(&self, name: &str, make: impl FnOnce(&Path) -> Res<()>) -> Res<()> {
        let marker = self.dir.join(format!("{name}.ready"));
        if marker.exists() {
            return Ok(());
        }
        let root = self.dir.join(name);
        remove_tree(&root)?;
        make(&root)?;
        std::fs::write(marker, "")?;
        Ok(())
    }

    /// Makes the image anew from the reference tree and returns how long that took.
    pub(crate) fn build_image(&self, subject: Subject) -> Res<f64> {
        let image = self.image(subject);
        self.unmount_image(subject)?;
        remove_tree(&image)?;
        let root = self.archive_root();
        let mut make = match subject {
            Subject::Erofs => {
                let mut make = command("mkfs.erofs");
                make.arg("-d0").arg(&image).arg(&root);
                make
            }
            _ => {
                let mut make = command("mksquashfs");
                make.arg(&root).arg(&image);
                make.args(["-comp", "lz4", "-quiet", "-no-progress", "-processors", "2"]);
                make
            }
        };
        let took = time(&mut make)?.wall_s;
        Ok(took)
    }

    /// Returns the bytes on disk of an image.
    pub(crate) fn image_bytes(&self, subject: Subject) -> Res<f64> {
        disk_bytes(&self.image(subject))
    }

    /// Mounts an image read-only unless it is mounted.
    pub(crate) fn mount_image(&self, subject: Subject) -> Res<()> {
        let point = self.root(subject);
        std::fs::create_dir_all(&point)?;
        if crate::sweep::minor_of(&point).is_ok() {
            return Ok(());
        }
        let mut mount = command("mount");
        mount.args(["-t", subject.name(), "-o", "ro,loop"]);
        output(mount.arg(self.image(subject)).arg(&point)).map(drop)
    }

    fn unmount_image(&self, subject: Subject) -> Res<()> {
        let point = self.root(subject);
        if crate::sweep::minor_of(&point).is_ok() {
            output(command("umount").arg(&point))?;
        }
        Ok(())
    }
}

/// Returns the bytes on disk of everything below `path`.
pub(crate) fn disk_bytes(path: &Path) -> Res<f64> {
    let printed = crate::run::text(command("du").args(["-s", "-B1"]).arg(path))?;
    let number = printed.split_whitespace().next().ok_or("du said nothing")?;
    Ok(number.parse()?)
}

/// `git worktree add`, with so many checkout workers.
pub(crate) fn worktree_add(input: &Input, root: &Path, workers: u32) -> Res<Timing> {
    output(&mut git(&input.repo, &["worktree", "prune"]))?;
    let workers = format!("checkout.workers={workers}");
    let mut add = git(&input.repo, &["-c", &workers, "worktree", "add", "-q"]);
    add.args(["-f", "--detach"]).arg(root).arg(&input.commit);
    time(&mut add)
}

/// `git clone --no-hardlinks`, with two checkout workers.
pub(crate) fn clone(input: &Input, root: &Path) -> Res<Timing> {
    let mut clone = command("git");
    clone.args(["-c", "checkout.workers=2", "clone", "-q", "--no-hardlinks"]);
    time(clone.arg(&input.repo).arg(root))
}

/// `git archive | tar x`, with the modes that git itself gives a checkout.
pub(crate) fn archive(input: &Input, root: &Path) -> Res<Timing> {
    std::fs::create_dir_all(root)?;
    let text = "git -c tar.umask=0022 -C \"$1\" archive \"$2\" | tar x";
    time(script(root, text).arg(&input.repo).arg(&input.commit))
}

/// Reads the first byte of `file` below `root` and returns how long that took, in seconds.
pub(crate) fn read_one(root: &Path, file: &str) -> Res<f64> {
    use std::io::Read;
    let start = Instant::now();
    let mut byte = [0; 1];
    std::fs::File::open(root.join(file))?.read_exact(&mut byte)?;
    Ok(start.elapsed().as_secs_f64())
}
