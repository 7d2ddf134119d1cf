//! `hames sandbox`: one command, as the agent's tools would run it.

use std::process::ExitCode;

use hames::protocol::port::{CommandSpec, Exit, Peers, Program, Tmp, View};
use hames::sandbox::{ProtectionConfig, TestFiles};
use hames::{LoneSandbox, SessionChoice};

use crate::args::{SandboxOptions, SettingFlags};
use crate::config::Setting;
use crate::exit::Failure;
use crate::outlet::Outlet;
use crate::{config, folder, identity, output, run};

/// A day: long enough for anything a person waits for.
const NO_TIMEOUT_MS: u64 = 24 * 3600 * 1000;

pub(crate) async fn run(options: SandboxOptions) -> Result<ExitCode, Failure> {
    let folder = run::workspace(options.place.workspace.as_deref(), &SessionChoice::New)?;
    let settings = config::load(&SettingFlags { place: options.place, ..SettingFlags::default() }, &folder)?;
    let values = |list: Vec<Setting<String>>| list.into_iter().map(|setting| setting.value).collect();
    let folders = folder::of(&settings.add_dir);
    let (protect, unprotect) = (values(settings.protect), values(settings.unprotect));
    let protection = ProtectionConfig { tests: TestFiles::Open, protect, unprotect };
    let isolation = run::isolation(settings.sandbox.value);
    let network = run::network(settings.network.value);
    let lone = LoneSandbox::new(&folder, isolation, network, protection, identity::of_user(), folders)
        .map_err(Failure::usage)?;
    let command = CommandSpec {
        program: Program::Direct(options.command),
        cwd: ".".into(),
        env: Vec::new(),
        timeout_ms: options.timeout.unwrap_or(NO_TIMEOUT_MS),
        tmp: Tmp::Session,
        view: View::default(),
        peers: Peers::Session,
        keep_output: None,
        capture_bytes: 0,
    };
    let outlet = Outlet::default();
    let show = |bytes: &[u8]| outlet.write(bytes);
    let finished = tokio::select! {
        finished = lone.sandbox.run(command, &show) => finished.map_err(Failure::internal)?,
        () = outlet.failed() => return outlet.check().map(|()| ExitCode::FAILURE),
    };
    outlet.check()?;
    for attempt in &finished.attempts {
        output::note(&format!("protected: `{}` ({}), tried to {}", attempt.path, attempt.rule, attempt.action));
    }
    for part in finished.appeared.iter().flat_map(|repository| &repository.set_aside) {
        output::note(&format!("protected: {part}"));
    }
    if finished.strays > 0 {
        output::note(&format!("{} processes were left behind and ended.", finished.strays));
    }
    if finished.exit == Exit::TimedOut {
        output::note("The command was ended because its time was up.");
    }
    Ok(ExitCode::from(u8::try_from(finished.exit.shell_code() & 0xff).unwrap_or(1)))
}
