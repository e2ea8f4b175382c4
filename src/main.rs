//! Entry point of the `barrage` program.
fn main() {}
