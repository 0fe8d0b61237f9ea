//! Development aid.
#![allow(clippy::print_stdout)]
fn main() {
    let path = std::env::args().nth(1).expect("path");
    let sets: Vec<String> = std::env::args().skip(2).collect();
    let spec = pellucid_lab::spec::load(&path, &sets).unwrap_or_else(|e| panic!("{e}"));
    let jobs = pellucid_lab::experiment::jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    let t = std::time::Instant::now();
    let clock = || t.elapsed().as_secs_f64();
    let mut device = pellucid_lab::experiment::prepare(&spec, None).unwrap_or_else(|e| panic!("{e}"));
    println!("prepared in {:.3} s", clock());
    let r = pellucid_lab::experiment::execute_on(&mut device, &spec, &jobs, None, &clock, |_| {})
        .unwrap_or_else(|e| panic!("{e}"));
    println!("{}", pellucid_lab::report::render_text(&r, 110));
    println!("{:?}", r.host);
}
