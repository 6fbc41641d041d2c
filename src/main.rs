//! The `forgefs` program: hands its arguments to the library and returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    forgefs::cli::main()
}
