//! C10 and C11: the effect of scrambler and error correction on bit errors.

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::throughput::LARGE;
use super::{Check, Figure, Limit, Outcome};
use pellucid_device::{Device, Filler};
use pellucid_flash::{Command, Lba, Lpn, Opcode, Rng, Status};
use pellucid_lab::drive::RunError;
use pellucid_media::{Bch, BitErrorModel, MlcSymbol, STUDY_PATTERNS, StudyPoint, scrambler_study};
use pellucid_report::plot::{Axis, Plot, Unit};

/// P/E cycles of Fig. 30 that are computed.
const CYCLES: [u32; 8] = [100, 500, 1000, 1500, 2000, 3000, 4000, 5000];
/// "Low" P/E cycles.
const FEW: u32 = 500;
/// Table 5: a page with its spare area.
const PAGE_BITS: u32 = (16_384 + 1_664) * 8;
/// Reduction published in section 7.3.
const PUBLISHED_REDUCTION: f64 = 0.137;
const TOLERANCE: f64 = 0.03;

/// Pages behind each bar, each read once, as a second read finds the same wrong bits, with about this many wrong bits each: the average is accurate
/// to half a percent.
const PAGES: u64 = 2_400;
const BITS_PER_READ: f64 = 40.0;

/// C10: a drive with and one without scrambler write and read the patterns; the drive counts the bits that its error correction corrects, like the
/// paper's monitor.
pub(super) fn scrambler(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut points = Vec::new();
    for pattern in STUDY_PATTERNS {
        points.extend(CYCLES.map(|cycles| (cycles, pattern)));
    }
    let errors = bench.map_or(&points, [f64::NAN; 2], |&(pe_cycles, (_, a, b))| {
        let errors = |scrambler| errors_per_page(bench, (a, b), pe_cycles, scrambler);
        Ok([errors(true)?, errors(false)?])
    })?;
    let study: Vec<StudyPoint> = points
        .iter()
        .zip(errors)
        .map(|(&(pe_cycles, (pattern, ..)), [scrambled, plain])| StudyPoint {
            pattern,
            pe_cycles,
            scrambled,
            plain,
        })
        .collect();
    let largest = |cycles: u32| {
        let reductions = study.iter().filter(|point| point.pe_cycles == cycles).map(StudyPoint::reduction);
        reductions.fold(0.0, |most: f64, share| if share.abs() > most.abs() { share } else { most })
    };
    let worn = CYCLES[CYCLES.len() - 1];
    let unaffected = study
        .iter()
        .find(|point| point.pattern == "11-00" && point.pe_cycles == worn)
        .map(StudyPoint::reduction);
    let checks = vec![
        Check::points(format!("errors avoided at {FEW} P/E, any pattern"), 0.0, largest(FEW), TOLERANCE),
        Check::points(
            format!("errors avoided at {worn} P/E, most of the patterns"),
            PUBLISHED_REDUCTION,
            largest(worn),
            TOLERANCE,
        ),
        Check::points(
            format!("errors avoided at {worn} P/E, pattern 11-00"),
            0.0,
            unaffected.unwrap_or(f64::NAN),
            TOLERANCE,
        ),
    ];
    let mut figures = STUDY_PATTERNS.map(|(pattern, ..)| pattern_figure(pattern, &study)).to_vec();
    figures.push(avoided_figure(&study));
    Ok(Outcome { checks, figures })
}

/// Draws the share of errors that the scrambler avoids, with the two numbers of section 7.3.
fn avoided_figure(study: &[StudyPoint]) -> Figure {
    let mut plot = Plot::new("Errors that the scrambler avoids")
        .x_axis(Axis::linear("program/erase cycles", Unit::Count).from(0.0))
        .y_axis(Axis::linear("share of the bit errors", Unit::Percent));
    for (pattern, ..) in STUDY_PATTERNS {
        let points = study.iter().filter(|point| point.pattern == pattern);
        plot = plot.line(pattern, points.map(|p| (f64::from(p.pe_cycles), p.reduction())).collect());
    }
    let worn = f64::from(CYCLES[CYCLES.len() - 1]);
    let plot = plot.points("published, most of the patterns", vec![(worn, PUBLISHED_REDUCTION)]);
    let caption =
        "1 - errors with the scrambler / errors without, from the drives of the other figures.".into();
    Figure { caption, svg: plot.to_svg() }
}

/// Mean number of corrected bits per page of alternating cells, on a worn drive.
fn errors_per_page(
    bench: &Bench,
    cells: (MlcSymbol, MlcSymbol),
    pe_cycles: u32,
    scrambler: bool,
) -> Result<f64, ReproduceError> {
    // Raises low error counts: less noise, without effect on any ratio.
    let expected = scrambler_study(&BitErrorModel::new(PAGE_BITS), &[pe_cycles])[0].scrambled;
    let factor = BITS_PER_READ / expected;
    let sets = [
        "media.channels=1".to_string(),
        "media.ways=1".into(),
        "media.blocks=48".into(),
        "media.pages=128".into(),
        "media.store=ram".into(),
        "media.bit_errors.enabled=true".into(),
        format!("media.bit_errors.factor={factor:?}"),
        format!("media.cycles={pe_cycles}"),
        format!("ecc.scrambler={scrambler}"),
        "ftl.over_provisioning=1.0".into(),
        "buffer.retain=false".into(),
        "buffer.entries=4".into(),
    ];
    let spec = bench.preset("cosmos-plus", &sets)?;
    let mut device = Device::new(&spec.drive).map_err(RunError::Device)?;
    let mut filler = Filler::default();
    let pages = PAGES / u64::from(bench.shorter());
    for unit in 0..pages {
        // Pages are written in order: LSB, MSB, LSB, ...
        let bit = |cell: MlcSymbol| if unit % 2 == 0 { cell.bits().0 } else { cell.bits().1 };
        let byte = 0xaa * u8::from(bit(cells.0)) + 0x55 * u8::from(bit(cells.1));
        let image = vec![byte; device.layout().unit_bytes as usize];
        device.fill_unit(&mut filler, Lpn(unit as u32), &image).map_err(RunError::Precondition)?;
    }
    device.fill_end(&mut filler).map_err(RunError::Precondition)?;
    for unit in 0..pages {
        let sectors = device.layout().sectors_per_unit;
        let lba = Lba(unit * u64::from(sectors));
        device.submit(device.now(), Command::new(unit, Opcode::Read, lba, sectors, Vec::new()));
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        let completion = device.pop().expect("a drive at rest owes nothing");
        assert_eq!(completion.status, Status::Success, "far fewer wrong bits than the code corrects");
    }
    Ok(device.counters().corrected_bits as f64 / pages as f64 / factor)
}

fn pattern_figure(pattern: &str, study: &[StudyPoint]) -> Figure {
    let points = |errors: &dyn Fn(&StudyPoint) -> f64| {
        let points = study.iter().filter(|point| point.pattern == pattern);
        points.map(|point| (f64::from(point.pe_cycles), errors(point))).collect::<Vec<_>>()
    };
    let plot = Plot::new(&format!("Fig. 30: pattern {pattern}"))
        .x_axis(Axis::linear("program/erase cycles", Unit::Count).from(0.0))
        .y_axis(Axis::linear("bit errors per page", Unit::Plain).from(0.0))
        .line("NoScr", points(&|point| point.plain))
        .line("Scr", points(&|point| point.scrambled));
    let caption = "Bits that the drive's error correction mended per page read, right after its program, mean of LSB and MSB pages.".into();
    Figure { caption, svg: plot.to_svg() }
}

/// The code of section 7.2.
const CHUNK_BYTES: usize = 256;
const STRENGTH: usize = 13;
/// Codewords decoded for each number of wrong bits.
const CHUNKS: u32 = 4_000;

/// C11: the codec on real data, and the drive with its key-equation solver shared by a growing number of channels.
pub(super) fn error_correction(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let code = Bch::new(CHUNK_BYTES, STRENGTH).expect("the code of the paper exists");
    let weights: Vec<usize> = (0..=STRENGTH).collect();
    let wrong = bench.map(&weights, |&weight| Ok(wrong_chunks(&code, weight, bench.seed())))?;
    let wrong: u32 = wrong.iter().sum();
    let chunks = CHUNKS * weights.len() as u32;
    let what = format!("wrong of {chunks} chunks with 0 to {STRENGTH} wrong bits");
    let exact = Check::bound(what, Unit::Count, f64::from(wrong), Limit::AtMost(0.0));
    let (shared, figure) = shared_solver(bench)?;
    Ok(Outcome { checks: vec![exact, shared], figures: vec![figure] })
}

/// Channels that share a solver: one each; four, as in the paper; all.
const SHARED_BY: [u32; 4] = [1, 2, 4, 8];
/// The reads of section 6.2.
const SOLVER_READS: u32 = 2_500;

/// Throughput that reads lose if four channels share a solver instead of having one each.
fn shared_solver(bench: &Bench) -> Result<(Check, Figure), ReproduceError> {
    let rates = bench.map(&SHARED_BY, |by| {
        let drive = Cosmos::new(Mode::Mlc, 8, 8).set(format!("scheduler.solver.channels={by}"));
        let report = bench.sequential(&drive, Flow::Read, &bench.job(LARGE, SOLVER_READS))?;
        Ok(Flow::Read.of(&report).throughput_bytes_per_second)
    })?;
    let lost = 1.0 - rates[2] / rates[0];
    let what = "throughput lost by a key-equation solver for four channels";
    let points = SHARED_BY.map(f64::from).into_iter().zip(rates).collect();
    let plot = Plot::new("Fig. 19: reads with a shared key-equation solver")
        .x_axis(Axis::doubling("channels that share a solver", Unit::Count))
        .y_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0))
        .line("MLC read, 8 x 8", points);
    let caption =
        "Measured here: 128 KiB sequential, 16 outstanding. The paper draws the process, not a curve.";
    let figure = Figure { caption: caption.into(), svg: plot.to_svg() };
    Ok((Check::bound(what, Unit::Percent, lost, Limit::AtMost(0.02)), figure))
}

/// Number of random codewords with `weight` wrong bits at random places that are not restored.
fn wrong_chunks(code: &Bch, weight: usize, seed: u64) -> u32 {
    let mut rng = Rng::stream(seed, &format!("reproduce bch {weight}"));
    let mut data = vec![0u8; CHUNK_BYTES];
    let mut parity = vec![0u8; code.parity_bytes()];
    let bits = CHUNK_BYTES * 8 + code.parity_bits();
    let mut wrong = 0;
    for _ in 0..CHUNKS {
        data.fill_with(|| rng.next_u64() as u8);
        code.encode(&data, &mut parity);
        let (mut read, mut read_parity) = (data.clone(), parity.clone());
        let mut flipped: Vec<usize> = Vec::with_capacity(weight);
        while flipped.len() < weight {
            let bit = rng.below(bits as u64) as usize;
            if !flipped.contains(&bit) {
                flipped.push(bit);
                let (bytes, bit) = match bit.checked_sub(CHUNK_BYTES * 8) {
                    None => (&mut read, bit),
                    Some(bit) => (&mut read_parity, bit),
                };
                bytes[bit / 8] ^= 0x80 >> (bit % 8);
            }
        }
        let corrected = code.decode(&mut read, &mut read_parity);
        let exact = corrected == Ok(weight as u32) && read == data && read_parity == parity;
        wrong += u32::from(!exact);
    }
    wrong
}
