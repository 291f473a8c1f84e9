// main() of every test program.
#ifdef MINIDDP_CATCH2_V2
#define CATCH_CONFIG_RUNNER
#endif
#include "tests/support/catch.h"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
