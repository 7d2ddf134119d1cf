//! `hames session`: what was recorded.

use std::path::Path;
use std::process::ExitCode;

use hames::session::{Store, Summary};

use crate::args::SessionVerb;
use crate::exit::Failure;
use crate::export::Transcript;
use crate::{output, run};

pub(crate) fn look(verb: SessionVerb) -> Result<ExitCode, Failure> {
    let store = run::store()?;
    match verb {
        SessionVerb::List { workspace } => list(&store, workspace.as_deref()),
        SessionVerb::Show { id } => show(&store, &id),
        SessionVerb::Export { id } => export(&store, &id),
        SessionVerb::Verify { id } => verify(&store, &id),
    }
}

fn list(store: &Store, workspace: Option<&Path>) -> Result<ExitCode, Failure> {
    // The sessions of a folder that is gone are there all the same.
    let summaries = store.list(workspace).map_err(Failure::internal)?;
    if summaries.is_empty() {
        output::note(&workspace.map_or_else(
            || "No sessions yet.".to_owned(),
            |folder| format!("No sessions of {}. `hames session list` shows all.", folder.display()),
        ));
    }
    for summary in &summaries {
        output::print_line(&line(summary))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(summary: &Summary) -> String {
    let outcome = match summary.outcome {
        Some(outcome) => output::outcome_name(outcome),
        None => "open".to_owned(),
    };
    let started = output::moment(summary.started);
    let workspace = summary.workspace.as_deref().unwrap_or("?");
    output::plain(&format!("{}  {started}  {outcome:<14}  {workspace}  {}", summary.id, summary.title))
}

fn show(store: &Store, id: &str) -> Result<ExitCode, Failure> {
    let id = store.resolve(id).map_err(Failure::usage)?;
    let mut code = ExitCode::SUCCESS;
    for record in store.read(&id).map_err(Failure::usage)? {
        match record {
            Ok(record) => {
                let text = serde_json::to_string(&record).map_err(Failure::internal)?;
                output::print_line(&text)?;
            }
            Err(bad) => {
                output::complain(&bad.to_string());
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

fn export(store: &Store, id: &str) -> Result<ExitCode, Failure> {
    let id = store.resolve(id).map_err(Failure::usage)?;
    let mut transcript = Transcript::default();
    for record in store.read(&id).map_err(Failure::usage)? {
        match record {
            Ok(record) => {
                if let Some(section) = transcript.section(&record) {
                    output::print_line(&format!("{section}\n"))?;
                }
            }
            Err(bad) => output::complain(&bad.to_string()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(store: &Store, id: &str) -> Result<ExitCode, Failure> {
    let id = store.resolve(id).map_err(Failure::usage)?;
    let report = store.verify(&id).map_err(Failure::usage)?;
    output::print_line(&report.to_string())?;
    Ok(if report.first_bad().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
