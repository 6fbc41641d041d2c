//! What counts as a credential in a remote's URL, taking it out, and showing a URL without it
//! (R79, R126). The rule errs to the safe side: what cannot be told apart counts as a secret.

/// A URL taken apart as far as secrets can hide in it.
struct Parts<'a> {
    scheme: &'a str,
    user_info: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    /// A `?` or `#` follows the path.
    has_tail: bool,
    /// What stands where a port should is no number, as if a password held a slash.
    has_odd_port: bool,
}

/// Returns whether the URL carries a credential: any user info for http and its kin, a password for
/// ssh and its kin, a query or fragment, or a helper transport (`ext::`, `fd::`), whose text may
/// hold anything. `git@host:path` and `ssh://git@host/path` carry none.
#[must_use]
pub fn has_credential(url: &str) -> bool {
    without_credential(url).as_deref() != Some(url)
}

/// Returns the URL without its credential, unchanged where it has none, and `None` where no URL is
/// left that would be safe to keep.
#[must_use]
pub fn without_credential(url: &str) -> Option<String> {
    if is_helper_transport(url) || url.chars().any(char::is_control) {
        return None;
    }
    let Some(parts) = split(url) else {
        return scp_like_without_credential(url);
    };
    let user = parts.user_info.and_then(|info| {
        let may_name_a_user = matches!(
            parts.scheme.to_ascii_lowercase().as_str(),
            "ssh" | "git+ssh" | "ssh+git" | "sftp"
        );
        may_name_a_user.then(|| info.split_once(':').map_or(info, |(user, _)| user))
    });
    if parts.has_odd_port {
        return None;
    }
    let is_clean = user == parts.user_info && !parts.has_tail;
    if is_clean {
        return Some(url.to_owned());
    }
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    Some(format!(
        "{}://{user}{}{}",
        parts.scheme, parts.host, parts.path
    ))
}

/// Returns the URL as it may be shown in messages and records: without its credential, or a word
/// that says why not.
#[must_use]
pub fn redacted(url: &str) -> String {
    without_credential(url).unwrap_or_else(|| String::from("(withheld)"))
}

/// Returns the host that a URL names, for a notice; empty for a path.
#[must_use]
pub fn host_of(url: &str) -> String {
    if is_helper_transport(url) {
        return String::new();
    }
    let host = match split(url) {
        Some(parts) => parts.host.to_owned(),
        None => match scp_like(url) {
            Some((host, _)) => host.rsplit('@').next().unwrap_or_default().to_owned(),
            None => String::new(),
        },
    };
    host.split(':').next().unwrap_or_default().to_owned()
}

/// `<word>::<anything>` hands the rest to a program of that name.
fn is_helper_transport(url: &str) -> bool {
    url.split_once("::").is_some_and(|(word, _)| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b))
    })
}

fn split(url: &str) -> Option<Parts<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !is_scheme {
        return None;
    }
    let authority_end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(authority_end);
    let path_end = after.find(['?', '#']).unwrap_or(after.len());
    let (path, tail) = after.split_at(path_end);
    let (user_info, host) = match authority.rsplit_once('@') {
        Some((info, host)) => (Some(info), host),
        None => (None, authority),
    };
    let port = host
        .rsplit_once(']')
        .map_or(host, |(_, after)| after)
        .rsplit_once(':');
    Some(Parts {
        scheme,
        user_info,
        host,
        path,
        has_tail: !tail.is_empty(),
        has_odd_port: port.is_some_and(|(_, port)| !port.bytes().all(|b| b.is_ascii_digit())),
    })
}

/// `user@host:path`: a colon before any slash, as git tells it from a path.
fn scp_like(url: &str) -> Option<(&str, &str)> {
    let colon = url.find(':')?;
    let before_slash = url.find('/').is_none_or(|slash| colon < slash);
    before_slash.then(|| (&url[..colon], &url[colon + 1..]))
}

fn scp_like_without_credential(url: &str) -> Option<String> {
    match scp_like(url) {
        // `user:secret@host:path` is no form that git knows, but it is what a slip looks like.
        Some((host, path))
            if !host.contains('@') && path.split('/').next().unwrap_or("").contains('@') =>
        {
            None
        }
        _ => Some(url.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r79_credentials_are_seen_and_taken_out() {
        for (url, want) in [
            ("https://h/x.git", Some("https://h/x.git")),
            ("https://u:TOKEN@h/x.git", Some("https://h/x.git")),
            ("https://ghp_x@h:8443/x.git", Some("https://h:8443/x.git")),
            ("HTTPS://u:p%40@h/x", Some("HTTPS://h/x")),
            ("https://a@b@h/x", Some("https://h/x")),
            ("https://@h/x", Some("https://h/x")),
            ("https://h/x?token=1", Some("https://h/x")),
            ("https://h/x#t", Some("https://h/x")),
            ("https://h?private=1", Some("https://h")),
            ("https://u:pa/ss@h/x", None),
            ("ssh://git@h/x", Some("ssh://git@h/x")),
            ("ssh://git:pw@h:22/x", Some("ssh://git@h:22/x")),
            ("ftp://u:p@h/x", Some("ftp://h/x")),
            ("svn://u:p@h/x", Some("svn://h/x")),
            ("git@h:x.git", Some("git@h:x.git")),
            ("h:x.git", Some("h:x.git")),
            ("user:secret@h:x.git", None),
            ("/srv/x.git", Some("/srv/x.git")),
            ("../x#y?.git", Some("../x#y?.git")),
            ("file:///srv/x", Some("file:///srv/x")),
            ("https://[::1]:8080/x", Some("https://[::1]:8080/x")),
            ("ext::sh -c 'secret'", None),
            ("fd::17", None),
            ("https://h/x\nurl = y", None),
        ] {
            assert_eq!(without_credential(url).as_deref(), want, "{url}");
            assert_eq!(has_credential(url), want != Some(url), "{url}");
        }
    }

    #[test]
    fn r126_what_is_shown_holds_no_secret() {
        for url in [
            "https://u:TOKEN@h/x",
            "https://TOKEN@h/x",
            "https://h/x?k=TOKEN",
            "ext::TOKEN",
            "u:TOKEN@h:x",
        ] {
            assert!(!redacted(url).contains("TOKEN"), "{url}");
            assert!(!host_of(url).contains("TOKEN"), "{url}");
        }
        assert_eq!(host_of("git@h.example:x"), "h.example");
    }
}
