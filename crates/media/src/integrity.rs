//! Data protection: error-correcting code, scrambler, and the bit errors that they work against.
//!
//! | `data` | a program | a read |
//! |---|---|---|
//! | drawn | stores the data | draws which bits are wrong and counts them by chunk |
//! | real | stores code words, scrambled | draws the same bits, flips them, and decodes the chunks that have one |
//! | checked | as real | decodes every chunk |
//!
//! The three give the same verdict and the same count for the same seed (`tests/it/integrity.rs` proves it): `real` shows that the codec
//! keeps the guarantee that `drawn` assumes. `drawn` suits fast runs, and drives that keep no data.

use crate::config::{Cell, MediaConfig};
use crate::ecc::{Bch, EccError, PageEcc};
use crate::error::MediaError;
use pellucid_setting::{Settings, Word};

/// How the simulator applies an error-correcting code to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum EccData {
    /// Wrong bits are drawn and counted; no code words are computed.
    Drawn,
    /// Code words are stored, wrong bits are flipped, and chunks that have one are decoded.
    Real,
    /// As `Real`, and every chunk that is read is decoded, so that damage to the store itself is found too.
    Checked,
}

/// A BCH code over chunks of a page, its parity in the spare area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct Ecc {
    /// Data bytes of one codeword.
    ///
    /// It divides page and mapping unit.
    #[setting(kind = size(0, 1 << 30), default = "256B")]
    pub chunk_bytes: u32,
    /// Bits that can be corrected in one codeword.
    ///
    /// Bits of its parity count, too.
    #[setting(kind = whole(1, Bch::STRENGTH_MAX as u64), default = 13)]
    pub correctable: u32,
    /// Use of the code. drawn: wrong bits are drawn and counted; real: codewords with errors are decoded; checked: all codewords that are
    /// read are decoded.
    #[setting(default = "drawn")]
    pub data: EccData,
}

/// An error-correcting code as a description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum EccCode {
    /// None.
    None,
    /// BCH: [`Ecc`].
    Bch,
}

/// Keys that decide on the code together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct EccSettings {
    /// Error-correcting code.
    #[setting(default = "none")]
    pub code: EccCode,
    /// Its settings, whether or not it is used.
    #[setting(flatten)]
    pub ecc: Ecc,
}

impl From<EccSettings> for Option<Ecc> {
    fn from(settings: EccSettings) -> Option<Ecc> {
        (settings.code == EccCode::Bch).then_some(settings.ecc)
    }
}

/// The bit-error model (see `bit_errors.rs`) applied to every read.
#[derive(Clone, Copy, Debug, PartialEq, Settings)]
pub struct BitErrors {
    /// Factor on the modelled bit error rate, which is that of no particular part.
    ///
    /// Parts differ by more than an order of magnitude.
    #[setting(kind = real(0.0, 1e9), default = 1.0)]
    pub factor: f64,
    /// Share of the errors that each read retry leaves.
    ///
    /// It moves the read thresholds.
    #[setting(kind = SHARE, default = 0.5)]
    pub retry_factor: f64,
    /// Share of the errors that no retry removes.
    #[setting(kind = SHARE, default = 0.1)]
    pub retry_floor: f64,
}

/// The retry model (see `retry.rs`) applied to every read.
#[derive(Clone, Copy, Debug, PartialEq, Settings)]
pub struct ReadRetry {
    /// Factor on the modelled number of retries: 3 on average at the rated cycles after a year.
    #[setting(kind = real(0.0, 1e6), default = 1.0)]
    pub factor: f64,
}

/// Data protection. The default: no protection and no errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Settings)]
pub struct Integrity {
    /// Program/erase cycles that every good block of new media has had; at most the endurance.
    #[setting(kind = whole(0, 10_000_000), default = 0)]
    pub cycles: u32,
    /// Reads have bit errors that depend on wear, retention, reads, page type and data pattern.
    ///
    /// `None`: there are none. They need a code.
    #[setting(switched)]
    pub bit_errors: Option<BitErrors>,
    /// Reads need retries that depend on wear, retention and reads of their block.
    ///
    /// `None`: the thresholds of a read always fit the cells.
    #[setting(switched)]
    pub retry: Option<ReadRetry>,
    /// The code; `None`: there is none.
    #[setting(beside = "ecc", table, via = EccSettings)]
    pub ecc: Option<Ecc>,
    /// Data are scrambled by their row address.
    #[setting(beside = "ecc", default = true)]
    pub scrambler: bool,
}

impl Integrity {
    /// Returns whether code words are stored instead of data.
    pub(crate) fn stores_code_words(&self) -> bool {
        self.ecc.is_some_and(|ecc| ecc.data != EccData::Drawn)
    }

    /// Returns whether data change on their way to the cells and back, or are read with thresholds that do not fit. A copy inside a die,
    /// which copies the raw bits, would then yield other data or carry wrong bits on.
    pub fn forbids_copies(&self) -> bool {
        self.stores_code_words() || self.bit_errors.is_some() || self.retry.is_some()
    }

    /// The code of a page; `None`: there is none.
    pub(crate) fn code(&self, config: &MediaConfig) -> Result<Option<PageEcc>, EccError> {
        let geometry = &config.geometry;
        let page = geometry.page_bytes as usize;
        // The host's part of the spare area is not available to the code.
        let metadata =
            u64::from(config.metadata_bytes) * u64::from(geometry.page_bytes / geometry.sector_bytes);
        let spare = u64::from(geometry.spare_bytes).saturating_sub(metadata) as usize;
        let make = |ecc: Ecc| PageEcc::new(page, spare, ecc.chunk_bytes as usize, ecc.correctable as usize);
        self.ecc.map(make).transpose()
    }
}

/// Bits per cell in the mode used.
pub(crate) fn cell_in_use(config: &MediaConfig) -> Cell {
    if config.slc_mode { Cell::Slc } else { config.cell }
}

/// Refuses combinations that do not fit together.
pub fn check_integrity(config: &MediaConfig) -> Result<(), MediaError> {
    check(config).map(drop)
}

/// Refuses combinations that do not fit together; otherwise makes the code.
pub(crate) fn check(config: &MediaConfig) -> Result<Option<PageEcc>, MediaError> {
    let refuse = |key, value: String, allowed: &str| {
        Err(MediaError::Config { key, value, allowed: allowed.to_string() })
    };
    let integrity = &config.integrity;
    if let Some(errors) = integrity.bit_errors {
        if integrity.ecc.is_none() {
            return refuse(
                "bit_errors.enabled",
                "true".into(),
                "false, or true with an error-correcting code",
            );
        }
        if !(0.0..=1e9).contains(&errors.factor) {
            return refuse("bit_errors.factor", errors.factor.to_string(), "0 to 1e9");
        }
        for (key, share) in
            [("bit_errors.retry_factor", errors.retry_factor), ("bit_errors.retry_floor", errors.retry_floor)]
        {
            if !(0.0..=1.0).contains(&share) {
                return refuse(key, share.to_string(), "0 to 1");
            }
        }
    }
    if let Some(retry) = integrity.retry
        && !(0.0..=1e6).contains(&retry.factor)
    {
        return refuse("retry.factor", retry.factor.to_string(), "0 to 1e6");
    }
    if let Some(limit) = config.endurance.filter(|&limit| integrity.cycles > limit) {
        let allowed = format!("0 to {limit}: new media are not beyond their endurance");
        return refuse("cycles", integrity.cycles.to_string(), &allowed);
    }
    if integrity.stores_code_words() && !config.store.keeps_data() {
        return refuse(
            "ecc.data",
            "real, or checked".into(),
            "drawn, or real and checked with a store that keeps the data",
        );
    }
    let code = integrity.code(config).map_err(|error| ecc_error(&error))?;
    if let Some(ecc) = integrity.ecc
        && !config.geometry.unit_bytes.is_multiple_of(ecc.chunk_bytes)
    {
        let allowed = format!("a divisor of the mapping unit's {} bytes", config.geometry.unit_bytes);
        return refuse("ecc.chunk", ecc.chunk_bytes.to_string(), &allowed);
    }
    Ok(code)
}

/// A refusal of the code, by the key that has to change.
fn ecc_error(error: &EccError) -> MediaError {
    let (key, value) = match *error {
        EccError::Strength { strength, .. } | EccError::SpareBytes { strength, .. } => {
            ("ecc.correctable", strength)
        }
        EccError::ChunkBytes { chunk_bytes, .. } | EccError::PageBytes { chunk_bytes, .. } => {
            ("ecc.chunk", chunk_bytes)
        }
    };
    MediaError::Config { key, value: value.to_string(), allowed: error.allowed() }
}
