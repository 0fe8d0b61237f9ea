//! The log as Parquet, read back.

use parquet::file::reader::{FileReader, SerializedFileReader};
use pellucid_flash::{Completion, Lba, Nanos, Opcode, SimTime, Stage, StageTimes, Status};
use pellucid_parquet_log::{ParquetLog, is_log};
use pellucid_report::{RequestLog, RequestSink};
use std::fs::File;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn completion(number: u64, opcode: Opcode, status: Status) -> Completion {
    let mut stages = StageTimes::default();
    stages.add(Stage::WaitWay, Nanos(40));
    stages.add(Stage::Media, Nanos(number));
    Completion {
        tag: 1,
        opcode,
        status,
        submitted: SimTime(1_000),
        completed: SimTime(1_040 + number),
        stages,
        data: Vec::new(),
        result: 0,
        unmapped: 2,
        vector: None,
    }
}

#[test]
fn it_holds_what_the_csv_log_holds() {
    let path = file("log.parquet");
    let mut csv = RequestLog::new(Vec::new()).unwrap();
    let mut log = Box::new(ParquetLog::new(File::create(&path).unwrap()).unwrap());
    for number in 0..1_000 {
        let (opcode, status) = match number % 3 {
            0 => (Opcode::Read, Status::UnrecoveredRead),
            1 => (Opcode::Write, Status::Success),
            _ => (Opcode::Read, Status::Success),
        };
        let completion = completion(number, opcode, status);
        csv.write(Lba(u64::MAX - number), 8, 3, &completion).unwrap();
        log.write(Lba(u64::MAX - number), 8, 3, &completion).unwrap();
    }
    log.finish().unwrap();
    let csv = String::from_utf8(csv.finish().unwrap()).unwrap();

    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let mut lines = csv.lines();
    let names = reader.metadata().file_metadata().schema_descr().columns().iter();
    let header: Vec<&str> = names.map(|column| column.name()).collect();
    assert_eq!(lines.next(), Some(header.join(",").as_str()));
    let mut rows = 0;
    for (row, line) in reader.get_row_iter(None).unwrap().zip(lines) {
        let row = row.unwrap();
        let cell = |field: &parquet::record::Field| field.to_string().trim_matches('"').to_string();
        let cells: Vec<String> = row.get_column_iter().map(|(_, field)| cell(field)).collect();
        assert_eq!(cells.join(","), line);
        rows += 1;
    }
    assert_eq!((rows, csv.lines().count()), (1_000, 1_001));
}

#[test]
fn a_log_is_told_from_other_files() {
    let path = file("known.parquet");
    let log = Box::new(ParquetLog::new(File::create(&path).unwrap()).unwrap());
    assert!(!is_log(&File::open(&path).unwrap()), "it is not complete");
    log.finish().unwrap();
    assert!(is_log(&File::open(&path).unwrap()));
    let other = file("other.parquet");
    std::fs::write(&other, "PAR1 of somebody else").unwrap();
    assert!(!is_log(&File::open(&other).unwrap()));
}

#[test]
fn a_full_disk_is_named_in_the_systems_words() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let refused = ParquetLog::new(full).and_then(|mut log| {
        log.write(Lba(0), 8, 3, &completion(1, Opcode::Read, Status::Success))?;
        Box::new(log).finish()
    });
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.raw_os_error()), (std::io::ErrorKind::StorageFull, Some(28)));
}
