//! Opcodes of the admin, NVM and fabrics command sets (Base 3.1.3.4 and figures of section 5, NVM section 3).

use crate::layout::wire_enum;

wire_enum! {
    /// Admin commands (Base section 5).
    pub enum AdminOpcode: u8 {
        /// Delete I/O Submission Queue (memory-mapped controllers only).
        DeleteSubmissionQueue = 0x00,
        /// Create I/O Submission Queue (memory-mapped controllers only).
        CreateSubmissionQueue = 0x01,
        /// Get Log Page.
        GetLogPage = 0x02,
        /// Delete I/O Completion Queue (memory-mapped controllers only).
        DeleteCompletionQueue = 0x04,
        /// Create I/O Completion Queue (memory-mapped controllers only).
        CreateCompletionQueue = 0x05,
        /// Identify.
        Identify = 0x06,
        /// Abort: CDW10 holds the queue (15:0) and the command (31:16).
        Abort = 0x08,
        /// Set Features.
        SetFeatures = 0x09,
        /// Get Features.
        GetFeatures = 0x0A,
        /// Asynchronous Event Request.
        AsyncEventRequest = 0x0C,
        /// Namespace Management.
        NamespaceManagement = 0x0D,
        /// Firmware Commit.
        FirmwareCommit = 0x10,
        /// Firmware Image Download.
        FirmwareDownload = 0x11,
        /// Device Self-test.
        DeviceSelfTest = 0x14,
        /// Namespace Attachment.
        NamespaceAttachment = 0x15,
        /// Keep Alive.
        KeepAlive = 0x18,
        /// Directive Send.
        DirectiveSend = 0x19,
        /// Directive Receive.
        DirectiveReceive = 0x1A,
        /// Format NVM.
        FormatNvm = 0x80,
        /// Security Send.
        SecuritySend = 0x81,
        /// Security Receive.
        SecurityReceive = 0x82,
        /// Sanitize.
        Sanitize = 0x84,
    }
}

wire_enum! {
    /// I/O commands of the NVM command set (NVM section 3) and those that zoned namespaces and flexible data
    /// placement add (ZNS section 3, Base section 7).
    pub enum NvmOpcode: u8 {
        /// Flush.
        Flush = 0x00,
        /// Write.
        Write = 0x01,
        /// Read.
        Read = 0x02,
        /// Write Uncorrectable.
        WriteUncorrectable = 0x04,
        /// Compare.
        Compare = 0x05,
        /// Write Zeroes.
        WriteZeroes = 0x08,
        /// Dataset Management.
        DatasetManagement = 0x09,
        /// Verify.
        Verify = 0x0C,
        /// Reservation Register.
        ReservationRegister = 0x0D,
        /// Reservation Report.
        ReservationReport = 0x0E,
        /// Reservation Acquire.
        ReservationAcquire = 0x11,
        /// I/O Management Receive (flexible data placement).
        IoManagementReceive = 0x12,
        /// Reservation Release.
        ReservationRelease = 0x15,
        /// Copy.
        Copy = 0x19,
        /// I/O Management Send (flexible data placement).
        IoManagementSend = 0x1D,
        /// Zone Management Send.
        ZoneManagementSend = 0x79,
        /// Zone Management Receive.
        ZoneManagementReceive = 0x7A,
        /// Zone Append.
        ZoneAppend = 0x7D,
    }
}

/// Opcode of every fabrics command (Base section 6); byte 4 then says which.
pub const FABRICS_OPCODE: u8 = 0x7F;

wire_enum! {
    /// Fabrics command types (Base section 6).
    pub enum FabricsType: u8 {
        /// Property Set.
        PropertySet = 0x00,
        /// Connect.
        Connect = 0x01,
        /// Property Get.
        PropertyGet = 0x04,
        /// Authentication Send.
        AuthenticationSend = 0x05,
        /// Authentication Receive.
        AuthenticationReceive = 0x06,
        /// Disconnect.
        Disconnect = 0x08,
    }
}
