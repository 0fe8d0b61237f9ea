//! Tables of a report by column, for writers of tables: the run over time, and flash operations by cause.

use super::{Cause, FlowSeries, Report, key};

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Whole numbers, some of them absent.
    MaybeWhole(Vec<Option<u64>>),
    /// Numbers.
    Real(Vec<f64>),
    /// Numbers, some of them absent.
    MaybeReal(Vec<Option<f64>>),
    /// Words.
    Words(Vec<String>),
}

/// A column with its name.
pub type Named = (String, Column);

impl Report {
    /// Returns the columns of `series.csv`: one row per interval.
    pub fn series_columns(&self) -> Vec<Named> {
        let series = &self.series;
        let mut columns: Vec<Named> = vec![
            ("begin_seconds".into(), Column::Real(series.begin_seconds.clone())),
            ("length_seconds".into(), Column::Real(series.length_seconds.clone())),
        ];
        let cached = (0..series.len()).map(|at| series.slc_cache_used_blocks.get(at).copied()).collect();
        let mut flow = |name: &str, flow: &FlowSeries| {
            columns.extend([
                (format!("{name}_requests"), Column::Whole(flow.requests.clone())),
                (format!("{name}_bytes"), Column::Whole(flow.bytes.clone())),
                (format!("{name}_mean_ns"), Column::MaybeReal(flow.mean_ns.clone())),
                (format!("{name}_p50_ns"), Column::MaybeWhole(flow.p50_ns.clone())),
                (format!("{name}_p99_ns"), Column::MaybeWhole(flow.p99_ns.clone())),
                (format!("{name}_max_ns"), Column::MaybeWhole(flow.max_ns.clone())),
            ]);
        };
        flow("read", &series.read);
        flow("write", &series.write);
        columns.extend([
            ("host_written_bytes".into(), Column::Whole(series.host_written_bytes.clone())),
            ("programmed_host_bytes".into(), Column::Whole(series.programmed_host_bytes.clone())),
            ("programmed_other_bytes".into(), Column::Whole(series.programmed_other_bytes.clone())),
            ("write_amplification".into(), Column::MaybeReal(series.write_amplification.clone())),
            ("free_blocks".into(), Column::Whole(series.free_blocks.clone())),
            ("channel_busy_share".into(), Column::Real(series.channel_busy_share.clone())),
            ("die_busy_share".into(), Column::Real(series.die_busy_share.clone())),
            ("victims".into(), Column::Whole(series.victims.clone())),
            ("victim_valid_share".into(), Column::MaybeReal(series.victim_valid_share.clone())),
            ("write_stall_ns".into(), Column::Whole(series.write.stall_ns.clone())),
            ("slc_cache_used_blocks".into(), Column::MaybeWhole(cached)),
        ]);
        columns
    }

    /// Returns flash operations, one row per cause: programs, programmed bytes, reads, and erased blocks.
    pub fn operation_columns(&self) -> Vec<Named> {
        let (programmed, erased) = (&self.write_amplification, &self.gc.erased_blocks);
        let each = |count: &dyn Fn(Cause) -> u64| Column::Whole(Cause::ALL.into_iter().map(count).collect());
        vec![
            ("cause".into(), Column::Words(Cause::ALL.iter().map(|cause| key(cause.name())).collect())),
            ("programs".into(), each(&|cause| programmed.programs[cause])),
            ("programmed_bytes".into(), each(&|cause| programmed.programmed_bytes[cause])),
            ("flash_reads".into(), each(&|cause| programmed.flash_reads[cause])),
            ("erased_blocks".into(), each(&|cause| erased[cause])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Series, sample};

    #[test]
    fn the_columns_over_time_are_those_of_the_csv() {
        let names: Vec<String> =
            sample::report().series_columns().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.join(","), Series::CSV_HEADER);
    }
}
