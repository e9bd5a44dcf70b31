//! libFuzzer's way into the target `cursor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = millstream_fuzz::Target::named("cursor").expect("the list has it");
    (target.check)(input);
});
