//! Figures of a timeline: the work of channels and ways, and how many were active.

use super::super::plot::{Axis, Drawing, Gantt, Mark, Plot, Unit};
use pellucid_device::{Activity, Timeline, TimelineSpan, Track};
use pellucid_flash::{Cause, SimTime};

/// Maximum number of bars in a drawing of channels and ways: more could not be told apart, and would only make the page heavy.
const BARS_MAX: usize = 6_000;
/// Number of intervals in a drawing over time.
const INTERVALS: usize = 400;

/// Returns the figures of a timeline, each with its caption.
pub(crate) fn figures(timeline: &Timeline) -> Vec<(Drawing, &'static str)> {
    if timeline.spans.is_empty() {
        return Vec::new();
    }
    vec![
        (
            channels_and_ways(timeline),
            "What each channel carries and each way works on, from the begin of the timeline's window until 6,000 bars are drawn; \
             the file of --timeline has all of it.",
        ),
        (
            active(timeline),
            "Channels that carry a transfer and ways that work, over the window of the timeline; means of 400 intervals.",
        ),
        (
            outstanding(timeline),
            "Commands in the drive, over the window of the timeline; means of 400 intervals. Those that completed later than the run are missing.",
        ),
    ]
}

fn since(timeline: &Timeline, at: SimTime) -> f64 {
    at.since(timeline.from).0 as f64
}

/// Returns the axis of time, from the begin of the window to `to`.
fn time(timeline: &Timeline, to: SimTime) -> Axis {
    Axis::linear("time since the begin of the window", Unit::Nanos).from(0.0).to(since(timeline, to))
}

/// Returns the outermost spans of channels and ways, by their begin.
fn in_time(timeline: &Timeline) -> Vec<&TimelineSpan> {
    let shown = |span: &&TimelineSpan| matches!(span.track, Track::Channel(_) | Track::Way { .. });
    let mut spans: Vec<_> = timeline.busy_spans().filter(shown).collect();
    spans.sort_by_key(|span| span.begin);
    spans
}

fn channels_and_ways(timeline: &Timeline) -> Drawing {
    let spans = in_time(timeline);
    let until = spans.get(BARS_MAX).map_or(timeline.to, |span| span.begin);
    let mut rows: Vec<String> = (0..timeline.channels).map(|channel| format!("channel {channel}")).collect();
    for way in 0..timeline.channels * timeline.ways * timeline.planes {
        let (die, plane) = (way / timeline.planes, way % timeline.planes);
        let beside = if timeline.planes > 1 { format!(" plane {plane}") } else { String::new() };
        rows.push(format!("way {}/{}{beside}", die / timeline.ways, die % timeline.ways));
    }
    let mut drawing = Gantt::new("Channels and ways", rows).x_axis(time(timeline, until));
    for span in spans.into_iter().filter(|span| span.begin < until) {
        let row = match span.track {
            Track::Way { die, plane } => timeline.channels + die * timeline.planes + plane,
            Track::Channel(channel) => channel,
            Track::Firmware(_) | Track::LinkToDrive | Track::LinkToHost => continue,
        };
        let end = span.end.min(until);
        drawing.bar(row as usize, &what(timeline, span), (since(timeline, span.begin), since(timeline, end)));
    }
    drawing.into()
}

/// Returns the name of a channel's or way's work in the drawing.
fn what(timeline: &Timeline, span: &TimelineSpan) -> String {
    let operation = span.operation.map(|at| &timeline.operations[at as usize]);
    match (operation, span.activity) {
        (_, Activity::StatusCheck) => "status check".into(),
        (Some(operation), _) if operation.cause == Cause::Host => operation.kind.name().into(),
        (Some(operation), _) => format!("{} ({})", operation.kind.name(), operation.cause.name()),
        (None, _) => "other".into(),
    }
}

/// Counts the intervals that contain each time: means over equal parts of the window, given at their middles.
fn counted(timeline: &Timeline, intervals: impl Iterator<Item = (SimTime, SimTime)>) -> Vec<(f64, f64)> {
    let width = since(timeline, timeline.to).max(1.0) / INTERVALS as f64;
    let mut sums = vec![0.0; INTERVALS];
    for (begin, end) in intervals {
        let (begin, end) = (since(timeline, begin), since(timeline, end.min(timeline.to)));
        let (first, last) = ((begin / width) as usize, (end / width) as usize);
        for (at, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let (from, to) = (at as f64 * width, (at + 1) as f64 * width);
            *sum += (end.min(to) - begin.max(from)).max(0.0);
        }
    }
    (0..).zip(sums).map(|(at, sum)| ((f64::from(at) + 0.5) * width, sum / width)).collect()
}

fn active(timeline: &Timeline) -> Drawing {
    let of = |ways: bool| {
        let spans = timeline.busy_spans().filter(move |span| match span.track {
            Track::Way { .. } => ways,
            Track::Channel(_) => !ways,
            Track::Firmware(_) | Track::LinkToDrive | Track::LinkToHost => false,
        });
        counted(timeline, spans.map(|span| (span.begin, span.end)))
    };
    Plot::new("Active channels and ways")
        .x_axis(time(timeline, timeline.to))
        .y_axis(Axis::linear("active", Unit::Count).from(0.0))
        .line("ways", of(true))
        .colour(2)
        .line("channels", of(false))
        .colour(4)
        .into()
}

fn outstanding(timeline: &Timeline) -> Drawing {
    let commands = timeline.commands.iter().map(|command| (command.submitted, command.completed));
    Plot::new("Outstanding commands")
        .x_axis(time(timeline, timeline.to))
        .y_axis(Axis::linear("commands", Unit::Count).from(0.0))
        .series("", Mark::Line, counted(timeline, commands))
        .into()
}
