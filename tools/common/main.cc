// The entry of a program whose function RANNC_MAIN names.
#include "tools/common/programs.h"

int main(int argc, char** argv) { return rannc::tools::RANNC_MAIN(argc, argv); }
