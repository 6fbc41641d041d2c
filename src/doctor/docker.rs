//! Where a Docker daemon is and which ids its containers have, as files and names show it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Surroundings;
use super::row::read_text;

/// Which ids on the host the users of a container get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DockerIds {
    /// The same.
    #[default]
    Host,
    /// Subordinate ones (`userns-remap`).
    Remapped,
    /// The caller's for root, subordinate ones for others.
    Rootless,
}

/// What is known of Docker here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Docker {
    /// Where the daemon is, if that may not be this kernel.
    pub(super) place: Option<String>,
    /// Whether that is certain.
    pub(super) is_surely_elsewhere: bool,
    pub(super) ids: DockerIds,
    socket: Option<PathBuf>,
}

impl Docker {
    /// Looks at `DOCKER_HOST`, `~/.docker/config.json` and the daemon's own settings.
    pub(super) fn look(surroundings: &Surroundings<'_>) -> Self {
        let config = surroundings
            .home
            .map(|home| read_text(home, ".docker/config.json"))
            .unwrap_or_default();
        let daemon = read_text(Path::new("/"), "etc/docker/daemon.json");
        Self::judge(surroundings.docker_host, &config, &daemon)
    }

    /// Judges the variable, else the context that the user's `config` names; `daemon` is the
    /// daemon's configuration.
    pub(super) fn judge(host: Option<&OsStr>, config: &str, daemon: &str) -> Self {
        let elsewhere = |place: String, is_surely_elsewhere| Self {
            place: Some(place),
            is_surely_elsewhere,
            ..Self::default()
        };
        if let Some(host) = host.map(OsStr::as_bytes) {
            let Some(socket) = host.strip_prefix(b"unix://") else {
                let name = String::from_utf8_lossy(host);
                return elsewhere(
                    format!("on another machine ({})", name.escape_debug()),
                    true,
                );
            };
            if is_of_a_virtual_machine(socket) {
                return elsewhere("in a virtual machine".into(), true);
            }
            return Self::here(Path::new(OsStr::from_bytes(socket)), daemon);
        }
        let config: Option<serde_json::Value> = serde_json::from_str(config).ok();
        let context = config
            .as_ref()
            .and_then(|config| config.get("currentContext")?.as_str())
            .unwrap_or_default();
        match context {
            "" | "default" => Self::here(Path::new("/var/run/docker.sock"), daemon),
            "rootless" => Self {
                ids: DockerIds::Rootless,
                ..Self::default()
            },
            _ if context.starts_with("desktop") => elsewhere("in a virtual machine".into(), true),
            _ => elsewhere(format!("where the context {context:?} says"), false),
        }
    }

    fn here(socket: &Path, daemon: &str) -> Self {
        let ids = if socket.starts_with("/run/user") {
            DockerIds::Rootless
        } else if daemon.contains("userns-remap") {
            DockerIds::Remapped
        } else {
            DockerIds::Host
        };
        Self {
            ids,
            socket: Some(socket.to_path_buf()),
            ..Self::default()
        }
    }

    /// Returns why nothing can be run now; a socket that exists is not tried.
    pub(super) fn trouble(&self) -> Option<String> {
        let socket = self.socket.as_ref().filter(|socket| !socket.exists())?;
        let shown = socket.display().to_string();
        Some(format!("there is no socket {}", shown.escape_debug()))
    }
}

/// Docker Desktop, Colima and Lima keep their sockets in directories of these names.
fn is_of_a_virtual_machine(socket: &[u8]) -> bool {
    socket
        .split(|byte| *byte == b'/')
        .any(|part| matches!(part, b"desktop" | b".colima" | b".lima"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r44_the_place_of_the_daemon_is_read_from_names_alone() {
        let here = |ids| (None, false, ids);
        let sure = |place| (Some(place), true, DockerIds::Host);
        for (host, config, daemon, want) in [
            (None, "", "", here(DockerIds::Host)),
            (None, "not json", "{}", here(DockerIds::Host)),
            (None, "{\"auths\":{}}", "", here(DockerIds::Host)),
            (
                None,
                "",
                r#"{"userns-remap":"default"}"#,
                here(DockerIds::Remapped),
            ),
            (
                None,
                r#"{"currentContext":"rootless"}"#,
                "",
                here(DockerIds::Rootless),
            ),
            (
                Some("unix:///run/user/7/docker.sock"),
                "",
                "",
                here(DockerIds::Rootless),
            ),
            (
                Some("unix:///var/run/docker.sock"),
                r#"{"currentContext":"desktop-linux"}"#,
                "",
                here(DockerIds::Host),
            ),
            (
                None,
                r#"{"currentContext":"desktop-linux"}"#,
                "",
                sure("in a virtual machine"),
            ),
            (
                Some("unix:///home/u/.docker/desktop/docker.sock"),
                "",
                "",
                sure("in a virtual machine"),
            ),
            (
                Some("ssh://h"),
                "",
                "",
                sure("on another machine (ssh://h)"),
            ),
            (
                None,
                r#"{"currentContext":"farm"}"#,
                "",
                (
                    Some("where the context \"farm\" says"),
                    false,
                    DockerIds::Host,
                ),
            ),
        ] {
            let docker = Docker::judge(host.map(OsStr::new), config, daemon);
            let got = (
                docker.place.as_deref(),
                docker.is_surely_elsewhere,
                docker.ids,
            );
            assert_eq!(got, want, "{host:?} {config} {daemon}");
        }
    }

    #[test]
    fn a_socket_that_is_not_there_is_said() {
        let docker = Docker::judge(Some(OsStr::new("unix:///no/such.sock")), "", "");
        let trouble = docker.trouble().unwrap();
        assert!(trouble.contains("/no/such.sock"), "{trouble}");
    }
}
