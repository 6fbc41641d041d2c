//! Directories and records that forgefs owns: where they are, who may enter, how they are written.
