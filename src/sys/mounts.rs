//! Making and ending the kernel's FUSE mounts: `mount(2)` as root, `fusermount3` as anybody else
//! (R18, R24, R40, R43). What may be mounted where is decided above.

use std::ffi::{CString, OsStr};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// The file system type that every mount of this program has.
pub const FUSE_TYPE: &str = "fuse.forgefs";

/// The variable that tells `fusermount3` on which descriptor to answer (libfuse's protocol).
const COMM_FD_VARIABLE: &str = "_FUSE_COMMFD";

/// How the kernel is to mount; always read-only, without devices and set-uid bits, and with the
/// kernel checking permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FuseMountOptions {
    /// What stands in the first column of `mount`'s list: `forgefs:<12 hex>`, never a host path.
    pub source: String,
    /// Whether programs on the mount may not be run.
    pub no_exec: bool,
    /// Whether users other than the mounter may enter.
    pub allow_other: bool,
    /// The user whose processes may enter.
    pub uid: u32,
    /// The group that goes with it.
    pub gid: u32,
}

/// Mounts an overlay on `point` with the options given, as `mount -t overlay` does.
///
/// # Errors
/// What `mount(2)` says; `EPERM` for who is root in no user namespace.
pub fn mount_overlay(options: &str, point: &Path) -> io::Result<()> {
    let data = CString::new(options).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::mount::mount(
        "overlay",
        point,
        "overlay",
        MountFlags::NODEV | MountFlags::NOSUID,
        data.as_c_str(),
    )?)
}

/// Returns whether this process is in the host's first user namespace, whose root may set trusted
/// attributes.
#[must_use]
pub fn in_first_user_namespace() -> bool {
    let mut text = String::new();
    let read = std::fs::File::open("/proc/self/uid_map")
        .and_then(|file| file.take(4096).read_to_string(&mut text));
    let numbers: Vec<&str> = text.split_ascii_whitespace().collect();
    read.is_ok() && numbers == ["0", "0", "4294967295"]
}

/// Opens `/dev/fuse`.
///
/// # Errors
/// `ENOENT` or `ENXIO` where the kernel has no FUSE, `EACCES` where this user may not.
pub fn open_fuse_device() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        "/dev/fuse",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Mounts the FUSE device on `point` with `mount(2)`, which root alone may. The kernel's INIT
/// request waits on `device` from then on.
///
/// # Errors
/// What `mount(2)` says; `EPERM` for anybody but root.
pub fn mount_fuse(
    device: BorrowedFd<'_>,
    point: &Path,
    options: &FuseMountOptions,
) -> io::Result<()> {
    let mut flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::NOEXEC, options.no_exec);
    let data = kernel_options(device.as_raw_fd(), options);
    let data = CString::new(data).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::mount::mount(
        options.source.as_str(),
        point,
        FUSE_TYPE,
        flags,
        data.as_c_str(),
    )?)
}

fn kernel_options(device: i32, options: &FuseMountOptions) -> String {
    let (uid, gid) = (options.uid, options.gid);
    let allow_other = if options.allow_other {
        ",allow_other"
    } else {
        ""
    };
    format!(
        "fd={device},rootmode=40000,user_id={uid},group_id={gid},default_permissions{allow_other}"
    )
}

/// Mounts on `point` through the set-uid program `fusermount3` and returns the device, on which the
/// kernel's INIT request waits. Speaks libfuse's protocol: the program gets a socket, here as its
/// standard input, and sends the descriptor over it.
///
/// # Errors
/// What the program wrote to its standard error where it refused; errors of starting it.
pub fn mount_fuse_with_helper(
    program: &Path,
    point: &Path,
    options: &FuseMountOptions,
) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut mount_options = format!(
        "ro,nosuid,nodev,default_permissions,fsname={},subtype=forgefs",
        options.source
    );
    if options.allow_other {
        mount_options.push_str(",allow_other");
    }
    if options.no_exec {
        mount_options.push_str(",noexec");
    }
    let arguments = [
        OsStr::new("-o"),
        OsStr::new(&mount_options),
        OsStr::new("--"),
        point.as_os_str(),
    ];
    run_helper(program, &arguments, Some(OwnedFd::from(theirs)))?;
    receive_descriptor(&ours)
}

/// Ends the mount on `point`; `lazy` detaches it at once although it is in use. A process that is
/// not root asks `fusermount3`.
///
/// # Errors
/// `EBUSY` where it is in use, `EINVAL` where nothing is mounted there, or what the helper wrote.
pub fn unmount(point: &Path, lazy: bool) -> io::Result<()> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    match rustix::mount::unmount(point, flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => {
            let how = OsStr::new(if lazy { "-uz" } else { "-u" });
            let arguments = [how, OsStr::new("--"), point.as_os_str()];
            run_helper(Path::new("fusermount3"), &arguments, None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Ends the mount on `point` after ending its FUSE connection, which frees every process that waits
/// for an answer. Root only.
///
/// # Errors
/// `EBUSY` where it is in use (the connection has ended all the same), `EPERM`.
pub fn unmount_forced(point: &Path) -> io::Result<()> {
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE;
    Ok(rustix::mount::unmount(point, flags)?)
}

/// Ends a FUSE connection, so that everything that waits for it fails with `ECONNABORTED`.
///
/// # Errors
/// `ENOENT` where /sys/fs/fuse/connections is not mounted or has no such connection, `EACCES` for
/// one of another user.
pub fn abort_connection(connection: u32) -> io::Result<()> {
    std::fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1")
}

/// Returns how many requests of a FUSE connection wait for its daemon, or are being answered.
///
/// # Errors
/// As [`abort_connection`].
pub fn waiting_requests(connection: u32) -> io::Result<u64> {
    std::fs::read_to_string(format!("/sys/fs/fuse/connections/{connection}/waiting"))?
        .trim_ascii()
        .parse()
        .map_err(io::Error::other)
}

/// Runs `fusermount3` to its end; its standard error becomes the error's text.
#[expect(
    clippy::disallowed_methods,
    reason = "sys is the room that starts programs"
)]
fn run_helper(program: &Path, arguments: &[&OsStr], socket: Option<OwnedFd>) -> io::Result<()> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    match socket {
        Some(socket) => command.env(COMM_FD_VARIABLE, "0").stdin(socket),
        None => command.env_remove(COMM_FD_VARIABLE).stdin(Stdio::null()),
    };
    let mut child = command.spawn()?;
    drop(command);
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // Bounded, since the text goes into a message; the rest is drained with the pipe's end.
        stderr.take(4096).read_to_end(&mut text)?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    let text = if text.is_empty() {
        format!("{} ended with {status}", program.display())
    } else {
        text
    };
    Err(io::Error::other(text))
}

/// Receives the one descriptor that `fusermount3` sends.
fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8; 1];
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    control
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
        .ok_or_else(|| io::Error::other("fusermount3 ended well but sent no descriptor"))
}

/// Lets the kernel read ahead up to `kib` KiB on the mount with this device number, so that a big
/// file comes in requests of 1 MiB instead of 128 KiB (`/sys/class/bdi/<major>:<minor>`). Root
/// only.
///
/// # Errors
/// `EACCES` for anybody but root, `ENOENT` where `/sys` is not mounted.
pub fn set_readahead_kib(device: (u32, u32), kib: u32) -> io::Result<()> {
    let (major, minor) = device;
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let file = rustix::fs::open(
        OsStr::from_bytes(path.as_bytes()),
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::io::write(&file, kib.to_string().as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r43_the_kernel_always_checks_permissions_and_others_enter_only_when_asked() {
        let mut options = FuseMountOptions {
            source: String::from("forgefs:0123456789ab"),
            no_exec: false,
            allow_other: false,
            uid: 7,
            gid: 8,
        };
        let base = "fd=3,rootmode=40000,user_id=7,group_id=8,default_permissions";
        assert_eq!(kernel_options(3, &options), base);
        options.allow_other = true;
        assert_eq!(kernel_options(3, &options), format!("{base},allow_other"));
    }

    #[test]
    fn a_helper_that_refuses_is_quoted_and_one_that_is_missing_is_an_error() {
        let options = FuseMountOptions {
            source: String::from("forgefs:0123456789ab"),
            no_exec: true,
            allow_other: false,
            uid: 0,
            gid: 0,
        };
        let point = Path::new("/nonexistent/point");
        let missing = mount_fuse_with_helper(Path::new("/nonexistent/helper"), point, &options);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        let silent = mount_fuse_with_helper(Path::new("/bin/false"), point, &options);
        assert!(silent.unwrap_err().to_string().contains("/bin/false"));
        let empty = mount_fuse_with_helper(Path::new("/bin/true"), point, &options);
        assert!(empty.unwrap_err().to_string().contains("no descriptor"));
    }
}
