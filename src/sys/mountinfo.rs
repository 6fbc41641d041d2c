//! `/proc/self/mountinfo` as data.
