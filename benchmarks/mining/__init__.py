"""Does a device find the frames on which its model is truly bad, and does it keep quiet on good calls?"""
