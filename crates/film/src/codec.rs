//! Encoding of frames; the crate's head describes the format.

use crate::cell::Cell;

/// One changed cell. Absent parts equal those of the previous frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    level: u8,
    usage: u8,
    stream: Option<u8>,
    erases: Option<u32>,
}

impl Change {
    /// The change from `before` to `now`; `None`: they are equal.
    pub fn between(before: Cell, now: Cell) -> Option<Change> {
        (before != now).then(|| Change {
            level: now.level,
            usage: now.usage,
            stream: (before.stream != now.stream).then_some(now.stream),
            erases: (before.erases != now.erases).then_some(now.erases),
        })
    }

    fn then(self, later: Change) -> Change {
        Change { stream: later.stream.or(self.stream), erases: later.erases.or(self.erases), ..later }
    }

    pub fn apply(self, cell: &mut Cell) {
        (cell.level, cell.usage) = (self.level, self.usage);
        cell.stream = self.stream.unwrap_or(cell.stream);
        cell.erases = self.erases.unwrap_or(cell.erases);
    }
}

/// Encodes changes, in ascending order of their cells.
pub(crate) fn encode(changes: impl Iterator<Item = (u32, Change)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end = 0;
    let mut run: Option<(u32, u32, Change)> = None;
    for (at, change) in changes {
        match &mut run {
            Some((first, length, same)) if *first + *length == at && *same == change => *length += 1,
            _ => {
                write_run(&mut out, &mut end, run.take());
                run = Some((at, 1, change));
            }
        }
    }
    write_run(&mut out, &mut end, run);
    out
}

fn write_run(out: &mut Vec<u8>, end: &mut u32, run: Option<(u32, u32, Change)>) {
    let Some((first, length, change)) = run else { return };
    write_varint(out, first - *end);
    let parts = u32::from(change.stream.is_some()) + 2 * u32::from(change.erases.is_some());
    write_varint(out, length * 4 + parts);
    out.push(change.level * 8 + change.usage);
    out.extend(change.stream);
    if let Some(erases) = change.erases {
        write_varint(out, erases);
    }
    *end = first + length;
}

fn write_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decodes the changes of a frame made by [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Vec<(u32, Change)> {
    let mut reader = bytes.iter().copied();
    let mut changes = Vec::new();
    let mut at = 0;
    while let Some(gap) = read_varint(&mut reader) {
        let head = read_varint(&mut reader).expect("a run has a head");
        let mut byte = || reader.next().expect("a run has a content");
        let content = byte();
        let stream = (head & 1 != 0).then(&mut byte);
        let erases = (head & 2 != 0).then(|| read_varint(&mut reader).expect("erases follow"));
        let change = Change { level: content / 8, usage: content % 8, stream, erases };
        at += gap;
        changes.extend((at..at + head / 4).map(|cell| (cell, change)));
        at += head / 4;
    }
    changes
}

fn read_varint(reader: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = reader.next()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Merges two consecutive frames.
pub(crate) fn merge(first: &[u8], second: &[u8]) -> Vec<u8> {
    let (first, second) = (decode(first), decode(second));
    let mut merged = Vec::with_capacity(first.len().max(second.len()));
    let mut earlier = first.into_iter().peekable();
    for (cell, later) in second {
        while let Some(alone) = earlier.next_if(|(at, _)| *at < cell) {
            merged.push(alone);
        }
        let before = earlier.next_if(|(at, _)| *at == cell);
        merged.push((cell, before.map_or(later, |(_, before)| before.then(later))));
    }
    merged.extend(earlier);
    encode(merged.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    fn some_cells(rng: &mut Rng) -> Vec<Cell> {
        let mut below = |n: u64| rng.below(n);
        let mut cell = || Cell {
            level: below(16) as u8,
            usage: below(6) as u8,
            stream: below(3) as u8,
            erases: below(400) as u32,
        };
        (0..300).map(|_| cell()).collect()
    }

    fn changes(before: &[Cell], now: &[Cell]) -> Vec<u8> {
        let all = before.iter().zip(now).zip(0..);
        encode(all.filter_map(|((b, n), at)| Change::between(*b, *n).map(|change| (at, change))))
    }

    fn apply(cells: &mut [Cell], frame: &[u8]) {
        decode(frame).into_iter().for_each(|(at, change)| change.apply(&mut cells[at as usize]));
    }

    #[test]
    fn frames_come_back_and_two_merged_are_as_one_after_the_other() {
        let mut rng = Rng::new(7);
        for _ in 0..20 {
            let (a, mut b) = (some_cells(&mut rng), some_cells(&mut rng));
            let c = some_cells(&mut rng);
            b[20..150].copy_from_slice(&a[20..150]);
            let (first, second) = (changes(&a, &b), changes(&b, &c));
            let mut cells = a.clone();
            apply(&mut cells, &first);
            assert_eq!(cells, b);
            apply(&mut cells, &second);
            assert_eq!(cells, c);
            let mut at_once = a.clone();
            apply(&mut at_once, &merge(&first, &second));
            assert_eq!(at_once, c);
        }
    }

    #[test]
    fn equal_neighbours_take_one_run() {
        let full = vec![Cell { level: 15, usage: 1, stream: 1, erases: 1 }; 60_000];
        assert_eq!(changes(&vec![Cell::default(); 60_000], &full).len(), 1 + 3 + 1 + 1 + 1);
        assert_eq!(changes(&full, &full), Vec::<u8>::new());
    }
}
