//! Wire dialects, retry hints, prices, and the scripted model
