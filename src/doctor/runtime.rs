//! Whether a process of a container could read a mount that this user makes (R43, R44).
//!
//! The kernel lets a process into a FUSE mount whose user and group are all those of the mounter,
//! or, with allow_other, any process of the mounter's user namespace and those below it
//! (fs/fuse/dir.c). Which ids a container's process has on the host follows from the runtime. No
//! program is started: only files and sockets are looked at.

use serde::Serialize;

use super::Surroundings;
use super::docker::{Docker, DockerIds};
use crate::error::{Error, ErrorKind, Result};
use crate::mount::preflight::{HostFacts, find_program};
use crate::sys::process::effective_ids;

/// Where the reading process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// No container.
    Host,
    /// Docker, whose daemon opens the mount as root before the container does.
    Docker,
    /// Podman, rootless unless root calls it.
    Podman,
    /// bubblewrap.
    Bwrap,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeRequest {
    /// The runtime.
    pub runtime: Runtime,
    /// The user as the container names it.
    pub uid: Option<u32>,
    /// The group as the container names it.
    pub gid: Option<u32>,
}

impl RuntimeRequest {
    /// Reads a request from the words of a command line: `docker`, and `1000` or `1000:1000`.
    ///
    /// # Errors
    /// `unknown-runtime`; `bad-user` for anything but numbers.
    pub fn parse(runtime: &str, user: Option<&str>) -> Result<Self> {
        let usage = |slug, message: String| Error::new(ErrorKind::Usage, slug, message);
        let runtime = match runtime {
            "host" => Runtime::Host,
            "docker" => Runtime::Docker,
            "podman" => Runtime::Podman,
            "bwrap" => Runtime::Bwrap,
            other => {
                let names = "host, docker, podman or bwrap";
                let message = format!("the runtime {other:?} is not known; it must be {names}");
                return Err(usage("unknown-runtime", message));
            }
        };
        let number = |text: &str| {
            text.parse::<u32>()
                .ok()
                .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
                .ok_or_else(|| {
                    let message =
                        format!("the user {text:?} is not a number; it must be UID[:GID]");
                    usage("bad-user", message)
                })
        };
        let (uid, gid) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            None => (None, None),
            Some((uid, "")) => (Some(number(uid)?), None),
            Some((uid, gid)) => (Some(number(uid)?), Some(number(gid)?)),
        };
        Ok(Self { runtime, uid, gid })
    }
}

/// Whether a process could read a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It could.
    Yes,
    /// It could not.
    No,
    /// That depends on what cannot be looked at from here.
    Unknown,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuntimeReport {
    /// The runtime.
    pub runtime: Runtime,
    /// The user in the container.
    pub uid: u32,
    /// The group in the container.
    pub gid: u32,
    /// Whether it could read a mount made without `--allow-other`.
    pub plain: Answer,
    /// Whether it could read a mount made with `--allow-other`.
    pub allow_other: Answer,
    /// One sentence: why.
    pub detail: String,
    /// The line that makes it work, where something must be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// What keeps the runtime from being used at all, as far as files and sockets show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What the judgement rests on, apart from the request.
struct Ground {
    /// The mounter's user and group.
    mounter: (u32, u32),
    /// Whether the mounter may give `--allow-other`.
    may_allow_other: bool,
    docker: Docker,
}

/// Judges one request on this host.
#[must_use]
pub fn judge_runtime(
    facts: &HostFacts,
    surroundings: &Surroundings<'_>,
    request: &RuntimeRequest,
) -> RuntimeReport {
    let (uid, gid) = effective_ids();
    let ground = Ground {
        mounter: (uid, gid),
        may_allow_other: uid == 0 || facts.user_allow_other,
        docker: Docker::look(surroundings),
    };
    let program = match request.runtime {
        Runtime::Host => None,
        Runtime::Docker => Some("docker"),
        Runtime::Podman => Some("podman"),
        Runtime::Bwrap => Some("bwrap"),
    };
    let on_path = |name: &&str| {
        let path = surroundings.path;
        path.is_some_and(|path| find_program(path, name).is_some())
    };
    let mut report = ground.judge(request);
    report.trouble = match program.filter(|name| !on_path(name)) {
        Some(name) => Some(format!("{name} is not on PATH")),
        None if request.runtime == Runtime::Docker => ground.docker.trouble(),
        None => None,
    };
    report
}

/// Which ids on the host a process in the container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostIds {
    /// These.
    Same(u32, u32),
    /// Ids out of the range that belongs to the mounter or to Docker: nobody's.
    Subordinate,
}

impl Ground {
    fn judge(&self, request: &RuntimeRequest) -> RuntimeReport {
        let (own_uid, own_gid) = self.mounter;
        // A container starts as root; a program of the host or in bwrap as its caller.
        let (first_uid, first_gid) = match request.runtime {
            Runtime::Host | Runtime::Bwrap => (own_uid, own_gid),
            Runtime::Docker | Runtime::Podman => (0, 0),
        };
        let uid = request.uid.unwrap_or(first_uid);
        let gid = request.gid.unwrap_or(match request.runtime {
            Runtime::Host if uid != own_uid => uid,
            _ => first_gid,
        });
        let report = |plain, allow_other, detail: String, fix: Option<String>| RuntimeReport {
            runtime: request.runtime,
            uid,
            gid,
            plain,
            allow_other,
            detail,
            fix,
            trouble: None,
        };
        if let (Runtime::Docker, Some(place)) = (request.runtime, self.docker.place.as_deref()) {
            let (answer, so) = match self.docker.is_surely_elsewhere {
                true => (Answer::No, "no mount of this host can be bound there"),
                false => (Answer::Unknown, "a mount of this host may not be there"),
            };
            let detail = format!("Docker's daemon is {place}: {so}");
            let fix = "docker cp DIR CONTAINER:/source".into();
            return report(answer, answer, detail, Some(fix));
        }
        let ids = self.host_ids(request.runtime, uid, gid);
        let daemon_is_barred = request.runtime == Runtime::Docker
            && self.docker.ids != DockerIds::Rootless
            && self.mounter != (0, 0);
        let is_mounter = ids == HostIds::Same(own_uid, own_gid);
        let plain = match is_mounter && !daemon_is_barred {
            true => Answer::Yes,
            false => Answer::No,
        };
        let allow_other = match self.may_allow_other {
            true => Answer::Yes,
            false => Answer::No,
        };
        let who = match ids {
            HostIds::Same(uid, gid) => format!("it runs as {uid}:{gid} on the host"),
            HostIds::Subordinate => String::from("it runs with subordinate ids on the host"),
        };
        let mounter = format!("the mounter is {own_uid}:{own_gid}");
        if plain == Answer::Yes {
            return report(plain, allow_other, format!("{who}, as {mounter}"), None);
        }
        let why = match daemon_is_barred {
            true => "; Docker's daemon, which is root, may not look into it either",
            false => "; user and group must both be the same",
        };
        let detail = format!("{who}, and {mounter}{why}: --allow-other is needed");
        let fix = match self.may_allow_other {
            true => "forgefs mount --allow-other ...",
            false => {
                "echo user_allow_other >> /etc/fuse.conf   # as root, then: forgefs mount --allow-other ..."
            }
        };
        report(plain, allow_other, detail, Some(fix.into()))
    }

    fn host_ids(&self, runtime: Runtime, uid: u32, gid: u32) -> HostIds {
        let (own_uid, own_gid) = self.mounter;
        let rootless = |uid, gid| match (uid, gid) {
            (0, 0) => HostIds::Same(own_uid, own_gid),
            _ => HostIds::Subordinate,
        };
        match runtime {
            Runtime::Host => HostIds::Same(uid, gid),
            // Whatever it is called inside, it is its caller's own user and group.
            Runtime::Bwrap => HostIds::Same(own_uid, own_gid),
            Runtime::Podman if own_uid != 0 => rootless(uid, gid),
            Runtime::Podman => HostIds::Same(uid, gid),
            Runtime::Docker => match self.docker.ids {
                DockerIds::Host => HostIds::Same(uid, gid),
                DockerIds::Remapped => HostIds::Subordinate,
                DockerIds::Rootless => rootless(uid, gid),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn ground(mounter: u32, may_allow_other: bool) -> Ground {
        Ground {
            mounter: (mounter, mounter),
            may_allow_other,
            docker: Docker::default(),
        }
    }

    fn ask(ground: &Ground, runtime: &str, user: Option<&str>) -> (Answer, Answer, Option<String>) {
        let request = RuntimeRequest::parse(runtime, user).unwrap();
        let report = ground.judge(&request);
        (report.plain, report.allow_other, report.fix)
    }

    #[test]
    fn r43_r44_who_may_read_follows_the_kernels_rule() {
        use Answer::{No, Yes};
        for (mounter, may, runtime, user, plain, allow_other) in [
            (0, true, "docker", None, Yes, Yes),
            (0, true, "docker", Some("0:0"), Yes, Yes),
            (0, true, "docker", Some("1000"), No, Yes),
            (0, true, "docker", Some("0:5"), No, Yes),
            (1000, true, "docker", None, No, Yes),
            // dockerd is root and is barred, though the container's user is the mounter.
            (1000, true, "docker", Some("1000:1000"), No, Yes),
            (1000, false, "docker", Some("1000:1000"), No, No),
            (1000, false, "podman", None, Yes, No),
            (1000, true, "podman", Some("1000"), No, Yes),
            (0, true, "podman", Some("1000"), No, Yes),
            (0, true, "podman", None, Yes, Yes),
            (1000, false, "bwrap", None, Yes, No),
            (1000, false, "bwrap", Some("0"), Yes, No),
            (1000, false, "host", None, Yes, No),
            (1000, false, "host", Some("1001"), No, No),
            (1000, true, "host", Some("1000:5"), No, Yes),
        ] {
            let got = ask(&ground(mounter, may), runtime, user);
            let what = format!("{mounter} {may} {runtime} {user:?}");
            assert_eq!((got.0, got.1), (plain, allow_other), "{what}");
            assert_eq!(got.2.is_some(), plain == No, "{what}");
            if !may && plain == No {
                let fix = got.2.unwrap();
                assert!(
                    fix.contains("echo user_allow_other >> /etc/fuse.conf"),
                    "{fix}"
                );
            }
        }
    }

    #[test]
    fn r44_a_daemon_elsewhere_cannot_bind_a_mount_at_all() {
        for (host, config, want) in [
            (None, "", Answer::Yes),
            (None, r#"{"currentContext":"desktop-linux"}"#, Answer::No),
            (None, r#"{"currentContext":"build-farm"}"#, Answer::Unknown),
            (Some("tcp://10.0.0.1:2375"), "", Answer::No),
        ] {
            let mut ground = ground(0, true);
            ground.docker = Docker::judge(host.map(OsStr::new), config, "");
            let (plain, allow_other, _) = ask(&ground, "docker", None);
            assert_eq!((plain, allow_other), (want, want), "{host:?} {config}");
            let (podman, _, _) = ask(&ground, "podman", None);
            assert_eq!(podman, Answer::Yes);
        }
    }

    #[test]
    fn users_are_numbers() {
        for bad in ["root", "", ":", "-1", "+1", "1:x", "4294967296", "1:2:3"] {
            let error = RuntimeRequest::parse("docker", Some(bad)).unwrap_err();
            assert_eq!(
                (error.kind(), error.slug()),
                (ErrorKind::Usage, "bad-user"),
                "{bad}"
            );
        }
        let request = RuntimeRequest::parse("podman", Some("7:8")).unwrap();
        assert_eq!((request.uid, request.gid), (Some(7), Some(8)));
        assert!(RuntimeRequest::parse("lxc", None).is_err());
    }
}
