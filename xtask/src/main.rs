//! Project chores, as `cargo xtask CHORE`. The only one is `tidy`: what the compiler does not check about the house.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words != ["tidy"] {
        eprintln!("usage: cargo xtask tidy");
        return Ok(ExitCode::from(2));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let failures = tidy::check(root)?;
    for failure in &failures {
        println!("{failure}");
    }
    if failures.is_empty() {
        println!("The house is tidy.");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} things are not tidy.", failures.len());
    Ok(ExitCode::FAILURE)
}
