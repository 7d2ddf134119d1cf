//! Project chores, as `cargo xtask CHORE`: `tidy` checks what the compiler does not check about the house, `bench`
//! measures.

mod bench;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(root),
        ["bench"] => bench::run(root).map(|()| ExitCode::SUCCESS),
        // What `bench` runs as a process of its own.
        ["bench-post", address, request] => bench::post(address, Path::new(request)).map(|()| ExitCode::SUCCESS),
        _ => {
            eprintln!("usage: cargo xtask tidy|bench");
            Ok(ExitCode::from(2))
        }
    }
}

fn tidy(root: &Path) -> anyhow::Result<ExitCode> {
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
