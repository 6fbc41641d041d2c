//! Named fault points (R71, R90): with the feature `faults`, which only tests turn on, a run can be
//! told to fail or to die at one of them. Without it they are nothing.

use crate::error::Result;

#[cfg(feature = "faults")]
static ARMED: std::sync::OnceLock<(bool, String)> = std::sync::OnceLock::new();

/// Arms one point: `kill:<point>` ends the process as SIGKILL would, `fail:<point>` is an error.
#[cfg(feature = "faults")]
pub fn arm(spec: &str) {
    if let Some((how, point)) = spec.split_once(':') {
        let _ = ARMED.set((how == "kill", point.to_owned()));
    }
}

/// Passes the point `name`.
///
/// # Errors
/// `fault` where a test armed this point.
#[cfg(feature = "faults")]
pub fn point(name: &str) -> Result<()> {
    match ARMED.get() {
        Some((true, armed)) if armed == name => std::process::abort(),
        Some((false, armed)) if armed == name => Err(crate::error::Error::new(
            crate::error::ErrorKind::Host,
            "no-space",
            format!("no space left, says the fault point {name}"),
        )),
        _ => Ok(()),
    }
}

/// Passes the point `name`: nothing, in a release.
///
/// # Errors
/// None without the feature `faults`.
#[cfg(not(feature = "faults"))]
#[inline]
pub fn point(name: &str) -> Result<()> {
    let _ = name;
    Ok(())
}
