//! The terminal: taken, drawn on, given back whatever happens.

use super::draw::draw;
use super::model::Model;
use pellucid_monitor::{Board, Figures};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two pictures.
const PERIOD: Duration = Duration::from_millis(250);
/// Keys are answered within this time.
const KEYS: Duration = Duration::from_millis(50);
/// Longest wait for the engine; after it the picture stays unchanged.
const PATIENCE: Duration = Duration::from_millis(200);

static SHOWN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back if the view has it; called before the process ends.
pub fn leave() {
    if SHOWN.swap(false, Ordering::AcqRel) {
        ratatui::restore();
    }
}

/// End of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// No more figures come.
    Over,
    /// The user leaves.
    Quit,
    /// Ctrl-C.
    Interrupt,
}

/// Source of figures.
pub trait Source {
    /// Reason why there are none.
    type Error: From<io::Error>;

    /// The next figures.
    ///
    /// # Errors
    /// The source can give no more figures; the error names the reason.
    fn next(&mut self) -> Result<Next, Self::Error>;

    /// Returns whether [`Source::next`] would give [`Next::Over`].
    fn is_over(&self) -> bool {
        false
    }
}

/// Answer of a source of figures.
pub enum Next {
    /// Newer figures.
    Figures(Box<Figures>),
    /// None yet.
    Nothing,
    /// No more.
    Over,
}

/// Takes the terminal, shows what `source` gives until the user or the source ends it, and gives it back.
///
/// # Errors
/// Input from the terminal or the source.
pub fn show<S: Source>(model: &mut Model, source: &mut S) -> Result<Ending, S::Error> {
    let mut terminal = ratatui::try_init()?;
    SHOWN.store(true, Ordering::Release);
    let _given_back = GiveBack;
    loop {
        match source.next()? {
            Next::Figures(figures) => model.push(*figures),
            Next::Nothing => {}
            Next::Over => return Ok(Ending::Over),
        }
        terminal.draw(|frame| draw(frame, model))?;
        let until = Instant::now() + PERIOD;
        while Instant::now() < until && !source.is_over() {
            if !event::poll(KEYS)? {
                continue;
            }
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match (key.code, key.modifiers) {
                    (KeyCode::Char('c'), KeyModifiers::CONTROL) => return Ok(Ending::Interrupt),
                    (KeyCode::Char('q') | KeyCode::Esc, _) => return Ok(Ending::Quit),
                    (KeyCode::Char('a'), _) => model.turn_window(),
                    (KeyCode::Tab | KeyCode::Right, _) => model.next_drive(),
                    _ => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            terminal.draw(|frame| draw(frame, model))?;
        }
    }
}

struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        leave();
    }
}

struct OnBoard(Board);

impl Source for OnBoard {
    type Error = io::Error;

    fn next(&mut self) -> io::Result<Next> {
        if self.is_over() {
            return Ok(Next::Over);
        }
        let view = self.0.look(Duration::ZERO, PATIENCE);
        Ok(view.map_or(Next::Nothing, |view| Next::Figures(Box::new(Figures::from(&*view)))))
    }

    fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}

/// The view of a run, in a thread of its own.
pub struct LiveView {
    board: Board,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// An [`Ending`] as a number.
    ending: Arc<AtomicU8>,
}

impl LiveView {
    /// Takes the terminal and shows what is on `board`.
    pub fn start(board: Board) -> io::Result<LiveView> {
        let ending = Arc::new(AtomicU8::new(Ending::Over as u8));
        let (told, shown) = (ending.clone(), board.clone());
        let view = move || {
            let mut model = Model::new("preparing the drive");
            let ended = show(&mut model, &mut OnBoard(shown))?;
            // Before the first request there is nothing that a report could be made of.
            if model.is_empty() && ended != Ending::Over {
                crate::interrupt::now();
            }
            if ended == Ending::Interrupt {
                crate::interrupt::ask();
            }
            told.store(ended as u8, Ordering::Release);
            Ok(())
        };
        let thread = std::thread::Builder::new().name("view".into()).spawn(view)?;
        Ok(LiveView { board, thread: Some(thread), ending })
    }

    /// Returns whether the user has left the view, so that the run should end.
    pub fn wants_end(&self) -> bool {
        self.ending.load(Ordering::Acquire) == Ending::Quit as u8
    }
}

impl Drop for LiveView {
    /// A failed run leaves the terminal as it was, too.
    fn drop(&mut self) {
        self.board.close();
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            crate::stderr::say(&format!("--live: the terminal: {error}"));
        }
    }
}
