//! The order in which controls run, until one is heard or what silences them is known.

use std::sync::Arc;

use hames_protocol::port::{Tmp, VerifyProblem, View};
use hames_protocol::{Baseline, CheckEvidence, Verdict};

use super::{Content, Control, Heard, Tests, prepare};
use crate::blocking;
use crate::checks::{Checks, Ran};
use crate::command::{self, Language};
use crate::report::Report;
use crate::untouched::Untouched;
use crate::view::Recipes;

/// Why a pass is withdrawn.
const TOOTHLESS: &str = "In the tests an assertion no longer fails when it must.";
const SILENCED: &str = "The code under test keeps the tests from running or from failing.";
const RUNS_OTHERWISE: &str = "On the untouched copy they fail: what runs the tests was changed.";
const UNSEEN: &str = "Not even with every test made to fail at its end was a failure seen.";

impl Checks {
    /// Runs a passing check of tests once more with tests that must fail, and withdraws the pass when they were not
    /// seen to.
    pub(crate) async fn control(
        &self,
        evidence: &mut CheckEvidence,
        kept: &Baseline,
        recipes: Recipes,
        report: &Report,
    ) -> Result<(), VerifyProblem> {
        // What is read in a report of nobody named may have been printed by any code, so all tests are controlled.
        let named = command::runners(&evidence.command);
        let language = named.last().and_then(|runner| runner.language().filter(|_| named.len() == 1));
        let languages: Vec<Language> = language.map_or_else(|| Language::ALL.to_vec(), |one| vec![one]);
        let Some(why) = self.silencer(&evidence.command, kept, recipes, report, &languages).await? else {
            return Ok(());
        };
        evidence.verdict = Verdict::Unverifiable;
        let name = report.runner.name();
        evidence.reason = format!("{name} reported success even with tests added that must fail. {why}");
        Ok(())
    }

    /// Why tests that must fail are not seen to; none when they are, or when no test file can carry one.
    async fn silencer(
        &self,
        command: &str,
        kept: &Baseline,
        recipes: Recipes,
        report: &Report,
        languages: &[Language],
    ) -> Result<Option<&'static str>, VerifyProblem> {
        let command = command::without_fail_fast(command);
        let added = self.prepare_control(kept, recipes, languages, Content::Added).await?;
        let mut heard = Heard::default();
        if !added.files.is_empty() {
            let ran = self.run_control(&command, kept, recipes, &added).await?;
            if added.is_toothless(&ran.output) {
                return Ok(Some(TOOTHLESS));
            }
            heard = added.heard(ran.exit, ran.report);
            if added.is_all(&heard, report) {
                return Ok(None);
            }
            // Some may be missed for a good reason. Then they are missed as well where nothing can silence them.
            let alone = self.prepare_control(kept, recipes, languages, Content::Alone).await?;
            let is_silenced = |ran: Ran| alone.heard_alone(ran.exit, ran.report, &ran.output).is_more_than(&heard);
            if is_silenced(self.run_control(&command, kept, recipes, &alone).await?) {
                return Ok(Some(SILENCED));
            }
            if let Untouched::At(tree) = self.untouched().await? {
                let there = |path: &String| tree.join(path).symlink_metadata().is_ok();
                let originals = alone.files.iter().filter(|(path, _)| there(path));
                let originals = originals.map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
                let view = View { stand_in: Some(tree.clone()), originals, ..View::default() };
                if is_silenced(self.run(&command, view, Tmp::Fresh).await?) {
                    return Ok(Some(RUNS_OTHERWISE));
                }
            }
        }
        if heard.tests > 0 {
            return Ok(None);
        }
        let ends = self.prepare_control(kept, recipes, languages, Content::Ends).await?;
        if ends.files.is_empty() {
            return Ok(None);
        }
        let ran = self.run_control(&command, kept, recipes, &ends).await?;
        Ok((!ends.is_heard_at_ends(ran.exit, ran.report)).then_some(UNSEEN))
    }

    async fn run_control(
        &self,
        command: &str,
        kept: &Baseline,
        recipes: Recipes,
        control: &Control,
    ) -> Result<Ran, VerifyProblem> {
        let mut view = self.compare(kept, recipes).await?.view;
        view.originals.extend(control.files.clone());
        view.left_out.extend(control.left_out.iter().cloned());
        self.run(command, view, Tmp::Fresh).await
    }

    async fn prepare_control(
        &self,
        kept: &Baseline,
        recipes: Recipes,
        languages: &[Language],
        content: Content,
    ) -> Result<Control, VerifyProblem> {
        let judged = self.compare(kept, recipes).await?;
        let (workspace, blobs) = (Arc::clone(&self.workspace), Arc::clone(&self.blobs));
        let (kept, folder, languages) = (kept.clone(), self.config.copy.clone(), languages.to_vec());
        blocking::run(move |_| {
            let tests = Tests {
                workspace: &*workspace,
                blobs: &*blobs,
                baseline: &kept,
                new: &judged.new_tests,
                sources: &judged.sources,
                languages: &languages,
            };
            prepare(&tests, content, &folder)
                .map_err(|error| VerifyProblem::System(format!("The control cannot be prepared: {error}.")))
        })
        .await
    }
}
