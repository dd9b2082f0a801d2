// Writes a bundle anew with an executable per stage: stage_bundle BUNDLE RANNC-STAGE NEW-BUNDLE.
#include <cstdio>

#include "codegen/bundle_writer.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto opened = rannc::runtime::open_bundle(argv[1]);
  if (!opened.ok()) return std::fprintf(stderr, "%s\n", opened.diagnostic().str().c_str()), 1;
  const rannc::codegen::BundleOptions options{.libraries = opened->libraries, .stage_program = argv[2]};
  const auto written = rannc::codegen::write_bundle(opened->plan, options, argv[3]);
  if (!written.ok()) return std::fprintf(stderr, "%s\n", written.diagnostic().str().c_str()), 1;
  return 0;
}
