//! `pellucid top`: the terminal view of drives in service.

use super::control::{Control, print};
use crate::args::Global;
use crate::failure::Failure;
use crate::view::{Ending, Model, Next, Source, show};
use crate::{interrupt, stderr};
use anyhow::anyhow;
use pellucid_monitor::Figures;
use pellucid_target::request::Request;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid top --control /tmp/pellucid.control
  pellucid top --control /tmp/pellucid.control --drive jasmine
  pellucid top --control /tmp/pellucid.control --json";

/// Show drives in service in the terminal or, with --json, their present figures once; the drives are watched from then on
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    /// The control socket of pellucid serve
    #[arg(long, visible_alias = "connect", value_name = "PATH")]
    control: PathBuf,
    /// The drive to begin with, when the server has several
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
}

/// Figures from the control socket.
struct Served(Control);

impl Source for Served {
    type Error = Failure;

    fn next(&mut self) -> Result<Next, Failure> {
        Ok(self.figures()?.map_or(Next::Over, |figures| Next::Figures(Box::new(figures))))
    }
}

impl Served {
    /// The next figures; `None`: the server has stopped.
    fn figures(&mut self) -> Result<Option<Figures>, Failure> {
        let answer = self.0.ask_while_it_runs(&Request::Watch)?;
        let figures = answer.map(serde_json::from_value).transpose();
        figures.map_err(|error| Failure::work(anyhow!("the server's figures: {error}")))
    }
}

impl Top {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if global.json {
            if let Some(drive) = &self.drive {
                return Err(Failure::asked(anyhow!(
                    "--drive {drive}: not with --json, which shows all drives"
                )));
            }
            return print(&Control::connect(&self.control)?.ask(&Request::Watch)?);
        }
        if !console::user_attended() {
            let control = self.control.display();
            return Err(Failure::asked(anyhow!(
                "top: standard output is no terminal; allowed: pellucid status --control {control}, or --json"
            )));
        }
        let mut served = Served(Control::connect(&self.control)?);
        let mut model = Model::new("waiting for the server");
        // Before the terminal is taken: what is wrong can be read where it is asked.
        match served.figures()? {
            Some(figures) => model.push(figures),
            None => return Err(Failure::work(anyhow!("{}", served.0.stopped()))),
        }
        if let Some(drive) = &self.drive
            && !model.choose(drive)
        {
            let drives = model.figures().map_or(&[][..], |figures| &figures.drives);
            let names: Vec<&str> = drives.iter().map(|d| d.name.as_str()).collect();
            return Err(Failure::asked(anyhow!(
                "--drive {drive}: no such drive; allowed: {}",
                names.join(", ")
            )));
        }
        match show(&mut model, &mut served)? {
            Ending::Interrupt => interrupt::now(),
            Ending::Quit => Ok(()),
            Ending::Over => {
                stderr::say(&served.0.stopped());
                Ok(())
            }
        }
    }
}
