//! `pellucid reproduce`: published claims, run again.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::progress::Bar;
use anyhow::anyhow;
use pellucid_claims::{
    Bench, Claim, Outcome, ReproduceError, render_details, render_json, render_known, render_list,
    render_page, render_ranges, render_reversed, render_row, render_rows_head, render_table, render_total,
    select, standing,
};
use pellucid_output::Part;

/// Seed of work and media, unless another is asked for.
const SEED: u64 = 1;
/// Threads; every claim is small, and more would need more memory.
const THREADS_MAX: usize = 2;

const EXAMPLES: &str = "\
Examples:
  pellucid reproduce --list
  pellucid reproduce C6
  pellucid reproduce cosmos-plus --report claims
  pellucid reproduce C6 --set firmware.clock_mhz=800

Without a claim or paper all are run. What is known to miss says why. Exit status: 0 if nothing else misses, 1 otherwise.";

/// Run published claims again, and compare measured with published values
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Reproduce {
    /// Claims (C1) and papers (cosmos-plus) [default: all]
    #[arg(value_name = "ID|PAPER")]
    claims: Vec<String>,
    /// List the claims instead of running them
    #[arg(long, conflicts_with_all = ["sets", "report", "seed", "quiet"])]
    list: bool,
}

impl Reproduce {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let claims = select(&self.claims).map_err(Failure::asked)?;
        if let [claim] = claims[..]
            && !claim.has_settings()
            && let Some(option) = given(global)
        {
            let message = format!("{} makes drives of its own; allowed: without {option}", claim.id);
            return Err(Failure::asked(anyhow!("{option}: {message}")));
        }
        if self.list {
            return Ok(output::print(&list(&claims, global))?);
        }
        let mut directory = output::claim(global.report.as_deref(), global)?;
        let outcomes = self.outcomes(claims, global)?;
        if let Some(directory) = &mut directory {
            directory.replace(&files(&outcomes))?;
        }
        if global.json {
            output::print(&render_json(&outcomes))?;
        } else {
            output::print(&format!("\n{}", render_total(&outcomes)))?;
        }
        let news = |(claim, outcome): &&(&Claim, Outcome)| !standing(claim, outcome).unknown.is_empty();
        let fail: Vec<&str> = outcomes.iter().filter(news).map(|(claim, _)| claim.id).collect();
        match fail.as_slice() {
            [] => Ok(()),
            ids => Err(Failure::work(anyhow!(
                "{} of {} claims {} and {}: {}",
                ids.len(),
                outcomes.len(),
                if ids.len() == 1 { "misses" } else { "miss" },
                if ids.len() == 1 { "is not a known miss" } else { "are not known misses" },
                ids.join(", ")
            ))),
        }
    }

    /// Runs the claims, and prints each result as soon as it is known.
    fn outcomes(
        &self,
        claims: Vec<&'static Claim>,
        global: &Global,
    ) -> Result<Vec<(&'static Claim, Outcome)>, Failure> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let bench = Bench::new(threads, global.seed.unwrap_or(SEED), global.sets.clone());
        let mut outcomes = Vec::new();
        for claim in claims {
            let bar = Bar::new(global, None);
            bar.say(claim.id);
            let outcome = claim.run(&bench).map_err(|error| failure(error, claim))?;
            if claim.has_settings() {
                bench.check_effects().map_err(|error| failure(error, claim))?;
            }
            bar.clear();
            if !global.json {
                // A run of chosen claims shows them whole.
                let details = render_details(&outcome, !self.claims.is_empty());
                // Not before there is a row: what is refused prints nothing.
                let head = if outcomes.is_empty() { render_rows_head() } else { String::new() };
                let notes =
                    render_reversed(&outcome) + &render_ranges(&outcome) + &render_known(claim, &outcome);
                output::print(&(head + &render_row(claim, &outcome) + &details + &notes))?;
            }
            outcomes.push((claim, outcome));
        }
        Ok(outcomes)
    }
}

/// The first option about the drives and their work that was given.
fn given(global: &Global) -> Option<&'static str> {
    let given = [("--seed", global.seed.is_some()), ("--set", !global.sets.is_empty())];
    given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
}

fn list(claims: &[&Claim], global: &Global) -> String {
    if !global.json {
        return render_list(claims);
    }
    let all = claims.iter().map(|claim| {
        serde_json::json!({
            "id": claim.id,
            "paper": claim.paper.name(),
            "where": claim.origin(),
            "claim": claim.text,
            "holds_when": claim.holds_when,
            "basis": claim.basis.name(),
            "set_or_seen": claim.set_or_seen,
        })
    });
    format!("{:#}\n", all.collect::<serde_json::Value>())
}

fn failure(error: ReproduceError, claim: &Claim) -> Failure {
    match error {
        ReproduceError::Spec(error) => error.into(),
        ReproduceError::Experiment(error) => error.into(),
        ReproduceError::Kv(error) => Failure::asked(error),
        error @ (ReproduceError::Owned { .. } | ReproduceError::NoEffect { .. }) => {
            Failure::asked(error).about(claim.id)
        }
        ReproduceError::Program(error) => Failure::work(anyhow::anyhow!(error)),
    }
}

/// The files of the report.
fn files(outcomes: &[(&'static Claim, Outcome)]) -> Vec<Part> {
    let page = render_page(outcomes, &output::command_line());
    vec![
        ("reproduce.json".into(), render_json(outcomes).into_bytes()),
        ("index.html".into(), page.into_bytes()),
        ("claims.md".into(), render_table(outcomes).into_bytes()),
    ]
}
