//! `pellucid age`: a drive filled and overwritten, saved as an image that runs fork from.

use crate::args::Global;
use crate::failure::Failure;
use crate::film::AgeingFilm;
use crate::output;
use crate::precondition::MemoryOptions;
use crate::progress::Bar;
use crate::spelling::{Given, add_set};
use crate::subject::{check_overridden, description_expected, is_one_file, split_sets};
use anyhow::anyhow;
use pellucid_device::{Device, Namespace};
use pellucid_ftl::Durability;
use pellucid_host::LayerConfig;
use pellucid_lab::drive::{Ageing, STEADY_SHARE, passes_max};
use pellucid_lab::experiment::Aged;
use pellucid_lab::{experiment, image};
use pellucid_media::StoreKind;
use pellucid_output::OutputFile;
use pellucid_report::EraseCounts;
use pellucid_spec::{Fill, Medium, Overwrite, Spec, SpecText, Use};
use pellucid_text::format::{binary_bytes, count, percent, significant, span};
use pellucid_text::read_share;
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pellucid age jasmine -o aged.pellucid
  pellucid age bench/random-write.toml --fill 90% --overwrite 2 -o aged.pellucid
  pellucid run --image aged.pellucid --rw randwrite --number-ios 100000
  pellucid compare aged.pellucid aged.pellucid,scheduler.order=read-first --rw randrw --bs 4k --number-ios 100000";

/// Fill and overwrite a drive, and save it as an image from which runs start
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Age {
    /// A preset, or a description in TOML
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Share of the capacity that is written sequentially [default: the description's, else 100%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    fill: Option<f64>,
    /// Random overwrites after the fill, in multiples of the filled capacity, or `steady`: until write amplification settles
    /// [default: the description's if it fills the drive, else steady]
    #[arg(long, value_name = "N|steady", value_parser = overwrite)]
    overwrite: Option<Overwrite>,
    /// When --overwrite steady ends: change (write amplification of a pass differs by less than 1 %), or snia (that of five passes ranges
    /// over at most 20 %, with a slope of at most 10 %; at most 25 passes) [default: the description's, else change]
    #[arg(long, value_name = "RULE", value_parser = ["change", "snia"])]
    steady_state: Option<String>,
    /// The image [default: NAME.pellucid]
    #[arg(long, short, visible_alias = "image", value_name = "IMAGE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryOptions,
}

fn share(text: &str) -> Result<f64, String> {
    let allowed = || "allowed: 0 to 1, or 0% to 100%".to_string();
    read_share(text).filter(|&share| share <= 1.0).ok_or_else(allowed)
}

fn overwrite(text: &str) -> Result<Overwrite, String> {
    match text.parse::<f64>() {
        _ if text == "steady" => Ok(Overwrite::Steady),
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(Overwrite::Capacities(number)),
        _ => Err("allowed: a number from 0, or steady".into()),
    }
}

/// The value as `--set` takes it.
fn written(overwrite: Overwrite) -> String {
    match overwrite {
        Overwrite::Steady => "steady".into(),
        // As TOML writes it, which knows no `.5`.
        Overwrite::Capacities(number) => format!("{number:?}"),
    }
}

impl Age {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (name, sets) = split_sets(&self.drive, &global.sets);
        description_expected(name)?;
        check_overridden(&[&self.drive], &global.sets)?;
        let spec = self.spec(name, sets, global)?;
        if spec.medium == Medium::Disk {
            let message = "a disk, which does not age; allowed: a drive of flash";
            return Err(Failure::asked(anyhow!("{}: {message}", spec.drive_name)));
        }
        if spec.precondition.fill.share() == 0.0 && spec.drive.media.integrity.cycles == 0 {
            let message = "nothing is written, so that nothing ages; allowed: above 0, to 1, or with media.cycles above 0";
            return Err(Failure::asked(anyhow!("--fill 0: {message}")));
        }
        output::warn(global, spec.check_effect(Use::Age)?);
        let in_file = match &spec.drive.media.store {
            StoreKind::File(path) => Some(path.clone()),
            StoreKind::None | StoreKind::Unstamped | StoreKind::Ram => None,
        };
        self.check_layers(&spec)?;
        self.check_file_store(&spec, in_file.is_some())?;
        let path = self.output.unwrap_or_else(|| PathBuf::from(format!("{}.pellucid", spec.drive_name)));
        output::refuse_answer_place("--output", &path)?;
        if in_file.is_none() && path.exists() && !path.is_file() {
            let message = "not a file; allowed: a file, or a new name";
            return Err(Failure::asked(anyhow!("{}: {message}", path.display())));
        }
        if in_file.is_none() && is_one_file(&path, Path::new(name)) {
            let message = "the description, which is read by this command; allowed: another file";
            return Err(Failure::asked(anyhow!("--output {}: {message}", path.display())));
        }
        let empty = std::fs::metadata(&path).is_ok_and(|file| file.len() == 0);
        if in_file.is_none() && path.is_file() && !empty && !global.force && !image::is_image(&path) {
            let message =
                "a file that is no image; allowed: an image, a new name, or --force, which replaces it";
            return Err(Failure::asked(anyhow!("{}: {message}", path.display())));
        }
        self.memory.check(&spec, global)?;
        // Refused before the drive is aged.
        let image = in_file.is_none().then(|| OutputFile::create_private(&path)).transpose()?;
        let began = Instant::now();
        let bar = Bar::new(global, None);
        bar.say("ageing the drive");
        let beside = in_file.as_deref().unwrap_or(&path);
        let mut film = AgeingFilm::begin(&bar, beside, Path::new(name), global)?;
        let Aged { mut device, capacity_bytes, ageing } = experiment::age(&spec, &mut film.filmed)?;
        let film = film.finish(&spec)?;
        bar.say("saving the drive");
        let bytes = image.map(|file| image::write(file, &spec, &device)).transpose()?;
        let path = match in_file {
            Some(file) => {
                device.sync().map_err(Failure::work)?;
                file
            }
            None => path,
        };
        bar.clear();
        let seconds = began.elapsed().as_secs_f64();
        let summary =
            Summary { spec: &spec, device: &device, ageing, capacity_bytes, path, film, bytes, seconds };
        Ok(output::print(&if global.json { summary.json() } else { summary.text(global) })?)
    }

    fn spec(&self, name: &str, mut sets: Vec<String>, global: &Global) -> Result<Spec, Failure> {
        let text = SpecText::open(if name == "-" { "/dev/stdin" } else { name })?;
        let described = text.spec(&sets)?;
        let share = described.precondition.fill.share();
        self.check_spellings(&described, global)?;
        if described.precondition.fill == Fill::Trace {
            let message = "precondition.fill = trace: there is no trace to age a drive by; allowed: 0 to 1";
            return Err(Failure::asked(anyhow!("{}: {message}", self.drive)));
        }
        let fills = share > 0.0;
        let fill = self.fill.or((!fills).then_some(1.0));
        sets.extend(fill.map(|fill| format!("precondition.fill={fill:?}")));
        let steady = !fills && fill != Some(0.0);
        if let Some(overwrite) = self.overwrite.or(steady.then_some(Overwrite::Steady)) {
            sets.push(format!("precondition.overwrite={}", written(overwrite)));
        }
        add_set(&mut sets, "--steady-state", "precondition.steady", self.steady_state.as_deref())?;
        sets.extend(global.seed.map(|seed| format!("precondition.seed={seed}")));
        Ok(text.spec(&sets)?)
    }

    /// Refuses options beside `--set` of the keys that they spell, unless both say the same.
    fn check_spellings(&self, described: &Spec, global: &Global) -> Result<(), Failure> {
        let provenance = &described.provenance;
        if let Some(value) = self.fill {
            let given =
                Given { option: "--fill", typed: &value.to_string(), key: "precondition.fill", value };
            given.check(&described.precondition.fill.share(), provenance)?;
        }
        if let Some(value) = self.overwrite {
            let typed = &written(value);
            let given = Given { option: "--overwrite", typed, key: "precondition.overwrite", value };
            given.check(&described.precondition.overwrite, provenance)?;
        }
        if let Some(value) = global.seed {
            let given =
                Given { option: "--seed", typed: &value.to_string(), key: "precondition.seed", value };
            given.check(&described.precondition.seed, provenance)?;
        }
        Ok(())
    }

    /// Refuses a drive that has nothing to fill or does not keep its mapping.
    fn check_layers(&self, spec: &Spec) -> Result<(), Failure> {
        let refuse = |message: &str| Err(Failure::asked(anyhow!("{}: {message}", self.drive)));
        let namespaces = &spec.drive.namespaces;
        let is_block = |namespace: &Namespace| matches!(namespace, Namespace::Block { .. });
        // A cluster buffer keeps nothing on the drive: the layer below it is aged.
        let keeps = |layer: &&LayerConfig| !matches!(layer, LayerConfig::ClusterBuffer(_));
        let durability = match spec.host.iter().rfind(keeps) {
            None if namespaces.is_empty() || namespaces.iter().any(is_block) => return Ok(()),
            None => {
                return refuse(
                    "no block namespace to fill; allowed: a drive with one, or with [host] layers above an \
                     open-channel or zoned namespace",
                );
            }
            Some(_) if spec.drive.media.store == StoreKind::None => {
                return refuse(
                    "drive.media.store = none: what the layers of the host note on the drive is lost; allowed: ram, file",
                );
            }
            Some(LayerConfig::HostFtl(config)) => config.durability,
            Some(_) => {
                return refuse("no sectors to fill; allowed: a host FTL above the chunks");
            }
        };
        match durability {
            Durability::Volatile => refuse(
                "host.ftl.durability = volatile: the layer forgets what it has written when it is started again; \
                 allowed: journal",
            ),
            Durability::Journal { .. } => Ok(()),
        }
    }

    /// Media in a file are their own image, if the drive does not forget them.
    fn check_file_store(&self, spec: &Spec, in_file: bool) -> Result<(), Failure> {
        let refuse = |message: &str| Err(Failure::asked(anyhow!("{}: {message}", self.drive)));
        match in_file {
            true if self.output.is_some() => refuse(
                "drive.media.store = file: the file is the image; allowed: no --output, or store none or ram",
            ),
            true if spec.drive.ftl.durability == Durability::Volatile => refuse(
                "drive.ftl.durability = volatile: the drive forgets the media file when it is opened again; \
                 allowed: journal, or store none or ram",
            ),
            _ => Ok(()),
        }
    }
}

/// Lines of the table of passes: it fits a screen.
const LINES: usize = 12;

/// Result of the ageing.
struct Summary<'a> {
    spec: &'a Spec,
    device: &'a Device,
    ageing: Vec<Ageing>,
    /// Capacity of the drive, or of the layers on it.
    capacity_bytes: u64,
    path: PathBuf,
    film: Option<PathBuf>,
    /// Length of an image; media files are sparse.
    bytes: Option<u64>,
    seconds: f64,
}

impl Summary<'_> {
    fn erases(&self) -> EraseCounts {
        EraseCounts::of(&self.device.erase_counts().collect::<Vec<_>>())
    }

    fn text(&self, global: &Global) -> String {
        let erases = self.erases();
        let size = self.bytes.map_or(String::new(), |bytes| format!(", {}", binary_bytes(bytes as f64)));
        let free = f64::from(self.device.free_blocks()) / f64::from(self.device.layout().blocks);
        let film =
            self.film.as_deref().map(|film| format!("{:20}{}\n", "film", film.display())).unwrap_or_default();
        let path = self.path.display();
        let next = format!(
            "pellucid run --image {} --rw randwrite --number-ios 100000",
            output::quoted(&path.to_string())
        );
        format!(
            "age  {}  >  {path}{size}, in {}\n\n\
             {}\
             {film}{:20}{} filled, erases per block {} to {}, mean {}, free blocks {}\n{}",
            self.spec.drive_name,
            span(self.seconds),
            self.evidence(),
            "wear",
            percent(self.spec.precondition.fill.share()),
            count(erases.min.into()),
            count(erases.max.into()),
            significant(erases.mean),
            percent(free),
            output::next(global, &[next]),
        )
    }

    /// Describes the ageing of each namespace that was filled.
    fn evidence(&self) -> String {
        let label = |ageing: &Ageing| match self.ageing.len() {
            1 => "ageing".to_string(),
            _ => format!("ageing of {}", ageing.namespace),
        };
        self.ageing.iter().map(|ageing| self.evidence_of(ageing, &label(ageing))).collect()
    }

    /// Pass after pass, at most [`LINES`] of them, and why it ended.
    fn evidence_of(&self, ageing: &Ageing, label: &str) -> String {
        let passes = &ageing.passes;
        let most = passes.iter().filter_map(|pass| pass.write_amplification).fold(1.0, f64::max);
        let every = passes.len().div_ceil(LINES).max(1);
        let mut lines = String::new();
        let mut overwritten = 0.0;
        for (number, pass) in (1..).zip(passes) {
            overwritten += pass.overwritten;
            let Some(amplification) = pass.write_amplification else { continue };
            if number % every == 0 || number == passes.len() {
                let bar = "#".repeat((30.0 * amplification / most).round() as usize);
                let (times, amplification) = (significant(overwritten), significant(amplification));
                lines += &format!("  {times:>8}  {amplification:>8}  {bar}\n");
            }
        }
        let head = if lines.is_empty() { "" } else { "  overwritten, write amplification of the pass\n" };
        let victim = self.spec.drive.ftl.victim;
        format!("{label:20}{}, victim policy {victim}\n{head}{lines}\n", ageing.reason())
    }

    fn json(&self) -> String {
        let pass = |pass: &pellucid_lab::drive::Pass| {
            serde_json::json!({
                "overwritten": pass.overwritten,
                "write_amplification": pass.write_amplification,
            })
        };
        let of = |ageing: &Ageing| {
            serde_json::json!({
                "passes": ageing.passes.iter().map(pass).collect::<Vec<_>>(),
                "stopped": ageing.stopped.name(),
                "reason": ageing.reason(),
                "last_change": ageing.last_change(),
                "rule": <&str>::from(self.spec.precondition.aged_by),
                "steady_below": STEADY_SHARE,
                "passes_max": passes_max(self.spec.precondition.aged_by),
                "victim": self.spec.drive.ftl.victim.to_string(),
            })
        };
        let erases = self.erases();
        let nothing = Ageing::default();
        let first = self.ageing.first().unwrap_or(&nothing);
        let mut value = serde_json::json!({
            "drive": self.spec.drive_name,
            "image": self.path.display().to_string(),
            "image_bytes": self.bytes,
            "capacity_bytes": self.capacity_bytes,
            "fill": self.spec.precondition.fill.share(),
            "ageing": of(first),
            "erases": { "total": erases.total, "min": erases.min, "mean": erases.mean, "max": erases.max },
            "free_blocks": self.device.free_blocks(),
            "wall_seconds": self.seconds,
        });
        if let Some(film) = &self.film {
            value["film"] = film.display().to_string().into();
        }
        // A single one is shown above by itself; with several, each has its number.
        if self.ageing.len() > 1 {
            let each = self
                .ageing
                .iter()
                .map(|ageing| serde_json::json!({ "namespace": ageing.namespace, "ageing": of(ageing) }));
            value["namespaces"] = each.collect();
        }
        format!("{value:#}\n")
    }
}
