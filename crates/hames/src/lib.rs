//! The library face of Hames: a builder that wires the ports with good defaults, and the few names an embedder needs.
//!
//! ```no_run
//! # async fn example() -> Result<(), hames::BuildProblem> {
//! use std::sync::Arc;
//! use hames::{Agent, model::script::{Script, Scripted}};
//!
//! let script = Script::load("fix.yaml".as_ref()).map_err(hames::BuildProblem::new)?;
//! let mut agent = Agent::builder(Arc::new(Scripted::new(script)))
//!     .workspace("checkout")
//!     .check("python3 -m unittest discover -s tests -t .")
//!     .build()?;
//! let result = agent.run("Fix the failing test.").await.map_err(hames::BuildProblem::new)?;
//! println!("{:?}: {}", result.outcome, result.summary);
//! # Ok(())
//! # }
//! ```

mod added;
mod agent;
mod approver;
mod builder;
mod clock;
mod confinement;
mod observer;
mod plain_file;
mod project;

pub use added::Folders;
pub use agent::Agent;
pub use approver::Nobody;
pub use builder::{BuildProblem, Builder, SessionChoice, Standing, sessions_folder};
pub use clock::SystemClock;
pub use confinement::{Isolation, LoneSandbox};
pub use observer::Silent;
pub use plain_file::{PlainFile, read_beneath};

pub use hames_agent::AgentProblem;
pub use hames_context as context;
pub use hames_model as model;
pub use hames_protocol as protocol;
pub use hames_sandbox as sandbox;
pub use hames_session as session;
pub use hames_tool::{Image, ImageProblem};
