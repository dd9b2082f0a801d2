// Stands in for a header that c10d includes for the context's declarations alone.
#pragma once

#include <gloo/context.h>
